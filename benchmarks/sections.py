"""Sections of docs/benchmarks.md that benchmarks write: what stands between `<!-- NAME -->` and `<!-- end NAME -->`."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Put the text there in place of what was there. Raises ValueError when the page has no such section."""
    before, _, after = _split(name, page)
    page.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")


def write_rows(
    name: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    note: str,
    *,
    order: Sequence[str],
    page: Path = PAGE,
) -> None:
    """Put rows that were measured now into a section's table; its other rows stay as they are.

    A row is known by its first cell, and `order` is that of these cells; others are dropped. The last column says when
    a row was measured, and a line below the table how: `note`. Raises ValueError when the table has other columns.
    """
    stamp = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    old_heads, *old_rows = read_rows(name, page) or [[]]
    wanted = [*heads, "measured"]
    if old_rows and old_heads != wanted and not {row[0] for row in rows} >= set(order):
        raise ValueError(f"the table of section {name} has other columns: measure all of its rows")
    found = {row[0]: list(row) for row in old_rows} | {row[0]: [*row, stamp] for row in rows}
    shown = [found[cell] for cell in order if cell in found]
    notes = dict(re.findall(r"^(\d{4}-\d\d-\d\d[^:\n]*(?::\d\d)?): (.+)$", _split(name, page)[1], re.MULTILINE))
    notes[stamp] = note
    lines = [f"{when}: {notes[when]}" for when in dict.fromkeys(row[-1] for row in shown) if when in notes]
    write_section(name, "\n\n".join([markdown_table(wanted, shown), *lines]), page)


def read_rows(name: str, page: Path = PAGE) -> list[list[str]]:
    """The cells of a section's table, its heads first; empty when there is none."""
    lines = [line for line in _split(name, page)[1].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return cells[:1] + cells[2:]


def _split(name: str, page: Path) -> tuple[str, str, str]:
    """What stands before, in and after a section, its marks outside. Raises ValueError when there is none."""
    begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    before, mark, rest = page.read_text(encoding="utf-8").partition(begin)
    inside, other, after = rest.partition(end)
    if not (mark and other):
        raise ValueError(f"{page} has no section {name}: {begin} … {end}")
    return before + begin, inside, end + after


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, numbers to the right."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine(threads: int) -> str:
    """When and where figures were taken, and how busy it was there."""
    return f"{datetime.now(UTC):%Y-%m-%d}, {place(threads)}"


def place(threads: int) -> str:
    """Where figures are taken, and how busy it is there."""
    import torch
    import transformers

    load = os.getloadavg()[1] if hasattr(os, "getloadavg") else float("nan")
    busy = "busy" if load > (os.cpu_count() or 1) * 0.75 else "quiet"
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {threads} thread(s), torch {torch.__version__}, "
        f"transformers {transformers.__version__}, {busy} machine (load {load:.1f})"
    )
