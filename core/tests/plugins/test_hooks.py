"""Hook modules: a broken one is reported and costs nobody else anything."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from plaudit import PluginError, UsageError, hookimpl, list_plugins
from plaudit.plugins.hooks import Hooks

RECORDING = """
from plaudit import hookimpl
SEEN = []

@hookimpl
def on_log(step, metrics):
    SEEN.append((step, dict(metrics)))
    return {"extra": 1.0}
"""


def of(**functions: object) -> SimpleNamespace:
    return SimpleNamespace(**{name: hookimpl(function) for name, function in functions.items()})


def test_installed_modules_are_called(installed) -> None:
    installed("acme-hooks", "1", {"plaudit": {"acme": "acme_hooks"}}, {"acme_hooks": RECORDING})
    hooks = Hooks([plugin for plugin in list_plugins(["hooks"]) if plugin.distribution == "acme-hooks"])
    assert hooks.call("on_log", step=3, mode="train", metrics={"reward": 0.5}) == [{"extra": 1.0}]
    import acme_hooks

    assert acme_hooks.SEEN == [(3, {"reward": 0.5})]
    assert hooks.broken == []
    assert hooks.call("on_step", step=3, epoch=0.5) == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("x = 1", "it implements no hook"),
        (
            "from plaudit import hookimpl\n@hookimpl\ndef on_logs(step): ...",
            "there is no hook 'on_logs'; hooks: configure",
        ),
        ("from plaudit import hookimpl\n@hookimpl\ndef on_log(stepp): ...", "stepp"),
        (
            "from plaudit import hookimpl\n@hookimpl(wrapper=True)\ndef on_log(step):\n    return (yield)",
            "hook wrappers are not supported",
        ),
    ],
)
def test_a_module_that_cannot_be_loaded_is_reported_and_the_others_stay(installed, source: str, says: str) -> None:
    installed("acme-bad", "1", {"plaudit": {"bad": "acme_bad"}}, {"acme_bad": source})
    installed("acme-hooks", "1", {"plaudit": {"acme": "acme_hooks"}}, {"acme_hooks": RECORDING})
    mine = [plugin for plugin in list_plugins(["hooks"]) if plugin.distribution.startswith("acme")]
    with pytest.warns(UserWarning, match=r"acme-bad:bad"):
        hooks = Hooks(mine)
    assert [name for name, _ in hooks.broken] == ["acme-bad:bad"]
    assert says in hooks.broken[0][1]
    assert hooks.call("on_log", step=1, mode="train", metrics={}) == [{"extra": 1.0}]


def test_one_that_fails_is_dropped_and_the_others_are_called() -> None:
    calls = []
    hooks = Hooks()
    hooks.register(of(on_step=lambda step: calls.append(("first", step))), "first")
    hooks.register(of(on_step=lambda epoch: 1 / 0), "bad")
    hooks.register(of(on_step=lambda step, epoch: calls.append(("last", step))), "last")
    with pytest.warns(UserWarning, match="bad: on_step failed: ZeroDivisionError: division by zero"):
        hooks.call("on_step", step=1, epoch=0.5)
    hooks.call("on_step", step=2, epoch=0.5)
    assert calls == [("last", 1), ("first", 1), ("last", 2), ("first", 2)]
    assert [name for name, _ in hooks.broken] == ["bad"]


def test_a_deliberate_error_ends_the_run() -> None:
    def refuse(settings):
        raise UsageError("this model may not be trained here")

    hooks = Hooks()
    hooks.register(of(configure=refuse), "policy")
    with pytest.raises(UsageError, match="may not be trained"):
        hooks.call("configure", settings={})
    assert hooks.broken == []


def test_the_first_sandbox_named_wins() -> None:
    hooks = Hooks()
    hooks.register(of(choose_sandbox=lambda name, limits: "local"), "old")
    hooks.register(of(choose_sandbox=lambda name: "docker" if name == "auto" else None), "new")
    assert hooks.call("choose_sandbox", name="auto", limits={}) == ["docker"]
    assert hooks.call("choose_sandbox", name="e2b", limits={}) == ["local"]


def test_one_object_registers_once() -> None:
    hooks = Hooks()
    module = of(on_step=lambda step: None)
    hooks.register(module, "m")
    with pytest.raises(PluginError):
        hooks.register(module, "m")
