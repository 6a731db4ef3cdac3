"""Sections of docs/benchmarks.md that benchmarks write: what stands between `<!-- NAME -->` and `<!-- end NAME -->`."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Put the text there in place of what was there. Raises ValueError when the page has no such section."""
    begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    whole = page.read_text(encoding="utf-8")
    if begin not in whole or end not in whole:
        raise ValueError(f"{page} has no section {name}: {begin} … {end}")
    before, rest = whole.split(begin, 1)
    after = rest.split(end, 1)[1]
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, numbers to the right."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine(threads: int) -> str:
    """When and where figures were taken, and how busy it was there."""
    import torch
    import transformers

    load = os.getloadavg()[1] if hasattr(os, "getloadavg") else float("nan")
    busy = "busy" if load > (os.cpu_count() or 1) * 0.75 else "quiet"
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, {threads} thread(s), torch "
        f"{torch.__version__}, transformers {transformers.__version__}, {busy} machine (load {load:.1f})"
    )
