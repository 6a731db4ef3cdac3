"""Which back end a sandbox gets that names none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from plaudit_sandbox import Limits, SandboxError, choosing
from plaudit_sandbox.choosing import Choice, choose, default_sandbox, sandbox_default


@pytest.fixture(autouse=True)
def nobody_chooses(monkeypatch):
    monkeypatch.delenv(choosing.VARIABLE, raising=False)
    monkeypatch.setattr(choosing, "_choosers", tuple)


@pytest.mark.parametrize(
    ("default", "backend", "options", "found"),
    [
        (None, None, {}, Choice("local")),
        (None, None, {"preload": ["json"]}, Choice("local", {"preload": ["json"]})),
        (None, "docker", {"cpus": 2}, Choice("docker", {"cpus": 2})),
        (Choice("docker", {"image": "a", "cpus": 1}), None, {"cpus": 2}, Choice("docker", {"image": "a", "cpus": 2})),
        (Choice("docker", {"image": "a"}), "local", {}, Choice("local")),
        (Choice("docker", {"image": "a"}), "docker", {"cpus": 2}, Choice("docker", {"cpus": 2})),
    ],
)
def test_a_name_wins_over_the_default(default, backend, options, found):
    with sandbox_default(default):
        assert choose(backend, options, Limits()) == found
    assert default_sandbox() == Choice()


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (None, Choice("local", {"max_slots": 3})),
        ("local", Choice("local", {"max_slots": 3})),
        ("e2b", Choice("e2b")),
        ("docker", Choice("docker", {"image": "a"})),
    ],
)
def test_a_chooser_may_put_another_in_its_place(monkeypatch, named, found):
    asked = []

    def chooser(name, limits):
        asked.append((name, limits["memory_mb"]))
        return named

    monkeypatch.setattr(choosing, "_choosers", lambda: (chooser,))
    with sandbox_default(Choice("docker", {"image": "a"})):
        assert choose("local", {"max_slots": 3}, Limits(memory_mb=77)) == found
    assert asked == [("local", 77)]


def test_a_default_ends_with_its_block_and_reaches_child_processes():
    program = "from plaudit_sandbox.choosing import default_sandbox as d; print(d().backend, dict(d().options))"
    with sandbox_default(Choice("e2b", {"max_sandboxes": 2})):
        with sandbox_default(Choice("docker")):
            assert default_sandbox().backend == "docker"
        with sandbox_default(None):
            assert default_sandbox().backend == "e2b"
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == "e2b {'max_sandboxes': 2}\n"
    assert choosing.VARIABLE not in os.environ


@pytest.mark.parametrize("text", ["docker", '{"image": "x"}', "[1]"])
def test_a_default_that_says_nothing_is_an_error(monkeypatch, text):
    monkeypatch.setenv(choosing.VARIABLE, text)
    with pytest.raises(SandboxError, match="PLAUDIT_SANDBOX="):
        default_sandbox()
