"""Wrong arguments are refused before anything runs, with what was expected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit_sandbox import Limits, Program, SandboxError
from plaudit_sandbox.agent.request import pack_body, read_body, stdin_of
from plaudit_sandbox.languages import ALIASES, LANGUAGES, invocation
from plaudit_sandbox.ranks import share_of_machine, share_of_run
from plaudit_sandbox.request import make_request


@pytest.mark.parametrize(
    ("program", "more", "message"),
    [
        (Program("x", "klingon"), {}, "'klingon'.*python, bash"),
        (Program("x", command=["ls"]), {}, "no source"),
        (Program(command=[]), {}, "not empty"),
        ("x", {"timeout_s": 0}, "seconds above 0"),
        ("x", {"timeout_s": float("nan")}, "seconds above 0"),
        ("x", {"collect": "out.txt"}, r"\['out.txt'\]"),
        ("x", {"collect": ["../x"]}, "inside the working directory"),
        ("x", {"files": {"/etc/x": ""}}, "inside the working directory"),
        ("x", {"files": {"a/../../b": ""}}, "inside the working directory"),
        ("x", {"files": {"": ""}}, "inside the working directory"),
        ("x", {"files": {"a": 3}}, "a: expected str or bytes, not int"),
        ("x", {"stdin": 3}, "stdin: expected str or bytes"),
        (3, {}, "program: expected str or bytes"),
        ("x", {"env": {"A=B": "c"}}, "a name and a text"),
        ("x", {"env": {"A": 1}}, "a name and a text"),
        ("x", {"env": {"A": "\0"}}, "a name and a text"),
    ],
)
def test_wrong_arguments(program: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        make_request(program, Limits(), **more)


@pytest.mark.parametrize(
    "values", [{"timeout_s": 0}, {"memory_mb": -1}, {"cpu_s": 0}, {"output_kb": "1"}, {"processes": True}]
)
def test_wrong_limits(values: dict[str, Any]) -> None:
    with pytest.raises(SandboxError, match=f"Limits\\({next(iter(values))}="):
        Limits(**values)


@pytest.mark.parametrize(("limits", "cpu_s"), [(Limits(timeout_s=4), 5), (Limits(timeout_s=4, cpu_s=2), 2)])
def test_cpu_follows_the_wall_unless_given(limits: Limits, cpu_s: float) -> None:
    assert limits.cpu_limit_s == cpu_s == make_request("x", limits).head["cpu_s"]


@given(
    stdin=st.binary(),
    source=st.binary(),
    files=st.dictionaries(st.text(min_size=1), st.binary(), max_size=3),
    env=st.text(),
)
def test_a_body_is_read_as_it_was_packed(stdin: bytes, source: bytes, files: dict[str, bytes], env: str) -> None:
    spec = {"kind": "python", "arguments": ["a"], "command": [], "compile": [], "env": {"E": env}}
    body = pack_body(spec, stdin, source, files)
    read = read_body(body)
    assert (bytes(read.stdin), bytes(read.source), dict(read.env)) == (stdin, source, {"E": env})
    assert {path: bytes(content) for path, content in read.files} == files
    assert bytes(stdin_of(body)) == stdin


@pytest.mark.parametrize("name", [*LANGUAGES, *ALIASES, "Python", "BASH"])
def test_languages_are_found_by_name(name: str) -> None:
    found = invocation(Program("source", name, ["arg"]))
    if found.kind == "python":
        assert found.source == "source"
    else:
        assert list(found.files.values()) == ["source"]
        assert found.command[-1] == "arg"


@pytest.mark.parametrize(
    ("local", "world", "machine", "run"), [("", "", 8, 8), ("4", "16", 2, 1), ("9", "x", 1, 8), ("0", "2", 8, 4)]
)
def test_ranks_share(monkeypatch: pytest.MonkeyPatch, local: str, world: str, machine: int, run: int) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", local)
    monkeypatch.setenv("WORLD_SIZE", world)
    assert (share_of_machine(8), share_of_run(8)) == (machine, run)
