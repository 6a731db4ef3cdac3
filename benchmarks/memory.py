"""Peak memory of a training pass beside TRL: `python benchmarks/memory.py [--sizes 128000x512 …] [--docs]`.

What forward and backward of one micro-batch hold above weights, gradients and optimizer state: B 4, P 64, C 1,024,
V = 128k, H = 256, 2 layers, and the same with V or C halved and quartered. The bytes are those that torch's allocator
gave out, so the machine's load does not matter. Writes JSON, and with --docs rows of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from sections import markdown_table, place, write_rows
from speed import run

SIZES = {
    f"{v}x{c}": (v, c) for v, c in [(128_000, 1024), (64_000, 1024), (32_000, 1024), (128_000, 512), (128_000, 256)]
}
HEADS = ["vocabulary and completion", "ours, MB", "TRL tuned, MB", "TRL ÷ ours"]


def label(vocabulary: int, completion: int) -> str:
    """A size in words."""
    return f"V = {vocabulary:,}, C = {completion:,}"


def table_rows(runs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The runs as rows under HEADS."""
    peaks = {(found["engine"], found["vocabulary"], found["completion"]): found["peak_mb"] for found in runs}
    rows = []
    for size in dict.fromkeys((found["vocabulary"], found["completion"]) for found in runs):
        ours, theirs = (peaks.get((engine, *size)) for engine in ("plaudit", "trl"))
        ratio = f"{theirs / ours:.2f}" if ours and theirs else "–"
        rows.append([label(*size), *(f"{peak:,.0f}" if peak else "–" for peak in (ours, theirs)), ratio])
    return rows


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES), help="V x C")
    parser.add_argument("--engines", nargs="+", choices=["plaudit", "trl"], default=["plaudit", "trl"])
    parser.add_argument("--json", type=Path, default=Path("runs/memory.json"), help="where the figures are written")
    parser.add_argument("--docs", action="store_true", help="write the rows into docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.docs and len(set(arguments.engines)) < 2:
        parser.error("--docs compares: it needs both engines")
    console = Console()
    runs = []
    for vocabulary, completion in (SIZES[size] for size in arguments.sizes):
        for engine in arguments.engines:
            words = [engine, f"--vocabulary={vocabulary}", f"--completion={completion}"]
            runs.append(run("memory_run.py", words, threads=1))
            console.print(json.dumps(runs[-1]), soft_wrap=True, highlight=False)
    rows = table_rows(runs)
    console.print(markdown_table(HEADS, rows), soft_wrap=True, highlight=False)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(runs, indent=1) + "\n")
    if arguments.docs:
        write_rows("memory", HEADS, rows, f"{place(1)}.", order=[label(*size) for size in SIZES.values()])


if __name__ == "__main__":
    main()
