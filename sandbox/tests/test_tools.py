"""The tools of an agent: state within a rollout, none beyond."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable

import pytest
from plaudit_sandbox.doctor import HELP, add_arguments, run
from plaudit_sandbox.tools import SandboxTools, shorten


@pytest.fixture
async def tools(keep_local_warm: Callable[[str], None]) -> AsyncIterator[SandboxTools]:
    keep_local_warm("namespaces")
    made = SandboxTools(tier="namespaces", timeout_s=10, memory_mb=512, max_characters=400)
    yield made
    await made.close()


async def test_python_keeps_its_names(tools: SandboxTools) -> None:
    assert await tools.python("x = 20\nprint('set')") == "set"
    assert await tools.python("x * 2 + 2") == "42"
    assert (await tools.python("1 / 0")).endswith("ZeroDivisionError: division by zero")
    assert "SyntaxError" in await tools.python("x = (")
    assert await tools.python("import sys; sys.exit(3)") == "[exit code 3]"
    assert await tools.python("x") == "20"


async def test_bash_keeps_its_state(tools: SandboxTools) -> None:
    assert await tools.bash("mkdir -p a/b && cd a/b; x='1 2'; greet() { echo \"hi $1\"; }") == ""
    said = await tools.bash('pwd; echo "$x"; greet you; echo oops >&2; false')
    assert said.removeprefix("/tmp").removeprefix("/home") == "/a/b\n1 2\nhi you\noops\n[exit code 1]"
    assert "not found" in await tools.bash("no_such_command")


async def test_both_share_files(tools: SandboxTools) -> None:
    await tools.python("open('/tmp/shared.txt', 'w').write('from python')")
    assert await tools.bash("cat /tmp/shared.txt") == "from python"


async def test_a_reset_begins_anew(tools: SandboxTools) -> None:
    await tools.python("x = 1\nopen('kept', 'w').close()")
    await tools.reset(prompt="a row's columns are taken")
    assert "NameError" in await tools.python("x")
    assert await tools.bash("ls") == ""


async def test_many_sessions_at_once_are_apart() -> None:
    """Agents that start when many are open inherit high descriptors, which a run must not overwrite."""
    rollouts = [SandboxTools(timeout_s=60) for _ in range(40)]
    try:
        await asyncio.gather(*(tools.python(f"x = {place}") for place, tools in enumerate(rollouts)))
        answers = await asyncio.gather(*(tools.python("x * 2") for tools in rollouts))
    finally:
        await asyncio.gather(*(tools.close() for tools in rollouts))
    assert answers == [str(place * 2) for place in range(40)]


async def test_what_runs_too_long_says_so() -> None:
    hasty = SandboxTools(timeout_s=0.5)
    try:
        assert (await hasty.bash("echo begun; sleep 60")).startswith("begun\n")
        assert "timeout" in await hasty.python("while True: pass")
    finally:
        await hasty.close()


async def test_long_output_is_shortened(tools: SandboxTools) -> None:
    text = await tools.python("print('a' * 5000 + 'z')")
    assert len(text) < 500
    assert "characters left out" in text
    assert text.endswith("z")


@pytest.mark.parametrize(
    ("text", "limit", "expected"), [("abc", 3, "abc"), ("abcdef", 4, "ab\n[… 2 characters left out …]\nef")]
)
def test_shorten(text: str, limit: int, expected: str) -> None:
    assert shorten(text, limit) == expected


@pytest.mark.parametrize("name", ["python", "bash"])
def test_schemas_can_be_derived(name: str) -> None:
    tool = getattr(SandboxTools, name)
    signature = inspect.signature(tool, eval_str=True)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    assert [each.annotation for each in parameters] == [str]
    assert signature.return_annotation is str
    assert f"Args:\n            {parameters[0].name}: " in (tool.__doc__ or "")


@pytest.mark.parametrize(("arguments", "code"), [(["local"], 0), (["local", "--json"], 0), (["nowhere"], 1)])
def test_doctor(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str], keep_local_warm: Callable[[str], None]
) -> None:
    import argparse
    import json

    keep_local_warm("namespaces")
    parser = argparse.ArgumentParser(description=HELP)
    add_arguments(parser)
    assert run(parser.parse_args(arguments)) == code
    printed = capsys.readouterr().out
    if "--json" in arguments:
        assert json.loads(printed)["local"]["tier"] in ("namespaces", "landlock")
    elif code == 0:
        assert "stops" in printed
        assert "does not stop" in printed
    else:
        assert "not available" in printed
        assert "installed: " in printed
