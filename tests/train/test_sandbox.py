"""`[sandbox]` of a run file, and plugins that choose another back end."""

from __future__ import annotations

import pytest
from plaudit import hookimpl
from plaudit.errors import UsageError
from plaudit.plugins import hooks as hooks_module
from plaudit.plugins.hooks import Hooks
from plaudit.run.runfile import parse_run, resolved_table
from plaudit.run.sandboxing import run_sandbox
from plaudit_sandbox.choosing import Choice, default_sandbox

RUN = {
    "output_dir": "o", "model": {"path": "m"}, "data": {"path": "d.jsonl"}, "reward": [{"name": "code"}],
}  # fmt: skip
RUNS_A_PROGRAM = """
from plaudit_sandbox import shared_sandbox
from plaudit_sandbox.choosing import choose
from plaudit_sandbox.limits import Limits

async def ran(completions):
    chosen = choose(None, {}, Limits())
    assert (chosen.backend, dict(chosen.options)) == ("local", {"max_slots": 2}), chosen
    result = await shared_sandbox().run("print(6 * 7)")
    return [float(result.text.strip() == "42") * len(text) for text in completions]
"""


def test_the_run_file_names_the_back_end(train, run_folder, capsys):
    (run_folder / "mine.py").write_text(RUNS_A_PROGRAM)
    reward = "reward=[{name='./mine.py:ran', on_error='raise'}]"
    assert train("--dry-run", reward, "sandbox={backend='local', options={max_slots=2}}") == 0
    assert "dry run: 8 completions" in capsys.readouterr().out
    assert default_sandbox() == Choice()


@pytest.mark.parametrize(
    ("sandbox", "match"),
    [
        ({"backend": "lokal"}, r"\[sandbox\] no sandbox back end named 'lokal'; installed: .*local"),
        ({"options": {"image": "x"}}, r"\[sandbox\] sandbox back end 'local': .*image"),
        ({"options": {"tier": "none"}}, "tier='none'"),
    ],
)
def test_a_back_end_that_cannot_be_is_refused_before_anything_is_loaded(sandbox, match):
    with pytest.raises(UsageError, match=match), run_sandbox(parse_run({**RUN, "sandbox": sandbox})):
        pass


def test_a_resolved_run_keeps_its_sandbox():
    run = parse_run({**RUN, "sandbox": {"backend": "docker", "options": {"image": "x"}}})
    assert parse_run(resolved_table(run)) == run
    with pytest.raises(UsageError, match="sandbox"):
        parse_run({**RUN, "sandbox": {"backnd": "docker"}})


class Prefers:
    """Puts `instead` in the place of any other."""

    def __init__(self, instead):
        self.instead, self.asked = instead, []

    @hookimpl
    def choose_sandbox(self, name, limits):
        self.asked.append((name, limits["memory_mb"]))
        return self.instead


@pytest.fixture
def prefer(monkeypatch):
    def register(instead):
        installed, plugin = Hooks(), Prefers(instead)
        installed.register(plugin, "prefers")
        monkeypatch.setattr(hooks_module, "installed_hooks", lambda: installed)
        return plugin

    return register


@pytest.mark.parametrize("who", ["code", "tools", "harbor", "gym"])
def test_every_user_of_sandboxes_asks_the_plugins(prefer, who):
    import plaudit_sandbox.opening as opening
    from plaudit.bridges.harbor import HarborEnvironment
    from plaudit_code.verify import Code
    from plaudit_gym.coding import PythonSandbox
    from plaudit_sandbox.tools import SandboxTools

    makers = {
        "code": lambda: Code(memory_mb=99)._box(99), "tools": lambda: SandboxTools(memory_mb=99),
        "harbor": lambda: HarborEnvironment(memory_mb=99), "gym": lambda: PythonSandbox(memory_mb=99),
    }  # fmt: skip
    plugin, opened = prefer("elsewhere"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_box", lambda backend, *more: opened.append((backend, more[-1])))
        makers[who]()
    assert plugin.asked == [("local", 99)]
    assert opened == [("elsewhere", {})]


async def _verdict():
    from plaudit_code.verify import Code

    reference = {"mode": "function", "entry_point": "f", "tests": [{"args": [2], "expect": 4}]}
    return await Code().verify("```python\ndef f(x):\n    return x + x\n```", reference)


@pytest.mark.parametrize(("instead", "reason"), [("local", ""), ("nowhere", "no sandbox back end named 'nowhere'")])
def test_a_hook_decides_where_programs_run(prefer, instead, reason):
    import asyncio

    plugin = prefer(instead)
    verdict = asyncio.run(_verdict())
    assert plugin.asked
    assert verdict.score == (None if reason else 1.0), verdict
    assert reason in verdict.reason


def test_a_hook_that_names_no_back_end_is_reported_and_dropped(prefer):
    prefer(5)
    with pytest.warns(UserWarning, match="choose_sandbox failed: it returned 5; expected a backend's name"):
        assert hooks_module.choose_sandbox("local", {"memory_mb": 1}) is None
