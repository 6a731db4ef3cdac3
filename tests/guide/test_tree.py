"""The annotated tree of files in README.md is that of the repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPENED = {"core/src/plaudit", "verifiers", "plugins", "examples"}
"""Folders whose entries are all listed; of examples, the folders."""
UNSAID = {".gitignore", "README.md", "__init__.py", "__main__.py", "py.typed"}


def listed() -> dict[str, str]:
    """Each path of the tree, with what is said of it."""
    (tree,) = re.findall(r"^## What is where\n+```text\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    found: dict[str, str] = {}
    folders: list[tuple[int, str]] = []
    for line in tree.splitlines():
        indent, name, said = re.fullmatch(r"( *)(\S+) *(.*)", line).groups()
        while folders and folders[-1][0] >= len(indent):
            folders.pop()
        path = f"{folders[-1][1]}/{name}" if folders else name
        folders.append((len(indent), path.rstrip("/")))
        found[path.rstrip("/")] = said
    return found


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git repository")
    return [path for path in done.stdout.splitlines() if (ROOT / path).exists()]


def test_all_that_it_lists_is_there(tracked):
    for path in listed():
        assert any(one == path or one.startswith(f"{path}/") for one in tracked), path


def test_it_lists_all_that_is_there(tracked):
    tree = listed()
    for path in tracked:
        parts = path.split("/")
        for depth in range(len(parts)):
            parent, entry = "/".join(parts[:depth]), "/".join(parts[: depth + 1])
            if (parent and parent not in OPENED) or parts[depth] in UNSAID:
                continue
            if parent != "examples" or depth < len(parts) - 1:
                assert entry in tree or any(one.startswith(f"{entry}/") for one in tree), entry


def test_each_line_says_what_is_there():
    tree = listed()
    for path, said in tree.items():
        assert said or any(one.startswith(f"{path}/") for one in tree), path
