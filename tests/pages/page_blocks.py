"""The code blocks of a page, run in the order in which they stand."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """`title`: the file that it is, None = it is run."""

    language: str
    title: str | None
    body: str


def blocks_of(page: str) -> list[Block]:
    """Every block of a page, which is named without its ending, beneath docs; each must say its language."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    assert len(found) * 2 == len(re.findall(r"^```", text, re.MULTILINE)), "a code block without a language"
    return [Block(one["language"], one["title"], one["body"]) for one in found]


def run_python(python: str | Path, body: str, folder: Path) -> None:
    """A block as a program of its own."""
    done = subprocess.run([python, "-c", body], cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{body}\n{done.stdout[-1000:]}{done.stderr[-3000:]}"
