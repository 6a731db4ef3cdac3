"""Every code block of these pages runs, in order, in a clean venv, and prints what the page says.

A block with a title is a file; an untitled python block is a script, whose output is the text block after it; a console
block is a session: each `$ ` line is run, and what follows it is its output, where `…` stands for anything.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from page_blocks import blocks_of
from plaudit.run.runfile import load_run_file

PAGES = ["concepts/plugins", "write-a-reward", "write-a-verifier"]


def same(printed: str, shown: str) -> bool:
    """Whether the output is what the page shows; spaces at the ends of lines and empty last lines do not count."""
    lines = [[line.rstrip() for line in text.strip("\n").splitlines()] for text in (printed, shown)]
    pattern = ".*".join(map(re.escape, "\n".join(lines[1]).split("…")))
    return re.fullmatch(pattern, "\n".join(lines[0]), re.DOTALL) is not None


def session(body: str) -> list[tuple[str, str]]:
    """(command, its output) of a console block."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    return [tuple(part.partition("\n")[::2]) for part in parts]


def run_command(command: str, clean_venv, build, folder: Path) -> str:
    program, *arguments = shlex.split(command)
    if program == "pip":
        build(clean_venv.wheels, [folder / arguments[-1]])
        clean_venv.install(Path(arguments[-1]).name)
        return ""
    return clean_venv.run(program, *arguments, cwd=folder)


@pytest.mark.parametrize("page", PAGES)
def test_page(page: str, clean_venv, build, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    blocks = blocks_of(page)
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block.title:
            file = folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            assert following is not None
            assert following.language == "text"
            printed = clean_venv.run("python", "-c", block.body, cwd=folder)
            assert same(printed, following.body), f"{block.body}\nprints\n{printed}"
        elif block.language == "console":
            for command, shown in session(block.body):
                printed = run_command(command, clean_venv, build, folder)
                assert same(printed, shown), f"$ {command}\n{printed}"
        if block.title == "run.toml":
            assert load_run_file(folder / block.title).rewards
