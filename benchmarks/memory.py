"""Peak memory of a training pass beside TRL: `python benchmarks/memory.py [--docs]`.

What forward and backward of one micro-batch hold above weights, gradients and optimizer state: B 4, P 64, C 1,024,
V = 128k, H = 256, 2 layers, and the same with V or C halved and quartered. The bytes are those that torch's allocator
gave out, so the machine's load does not matter. Writes JSON, and with --docs a section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from sections import machine, markdown_table, write_section
from speed import run

SIZES = [(128_000, 1024), (64_000, 1024), (32_000, 1024), (128_000, 512), (128_000, 256)]


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """The runs as Markdown."""
    peaks = {(found["engine"], found["vocabulary"], found["completion"]): found["peak_mb"] for found in runs}
    rows = []
    for vocabulary, completion in dict.fromkeys((found["vocabulary"], found["completion"]) for found in runs):
        ours, theirs = (peaks.get((engine, vocabulary, completion)) for engine in ("plaudit", "trl"))
        ratio = f"{theirs / ours:.2f}" if ours and theirs else "–"
        shown = [f"{peak:,.0f}" if peak else "–" for peak in (ours, theirs)]
        rows.append([f"{vocabulary:,}", f"{completion:,}", *shown, ratio])
    return markdown_table(["V", "C", "ours, MB", "TRL tuned, MB", "TRL ÷ ours"], rows)


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", nargs="+", choices=["plaudit", "trl"], default=["plaudit", "trl"])
    parser.add_argument("--json", type=Path, default=Path("runs/memory.json"), help="where the figures are written")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.docs and len(set(arguments.engines)) < 2:
        parser.error("--docs compares: it needs both engines")
    console = Console()
    runs = []
    for vocabulary, completion in SIZES:
        for engine in arguments.engines:
            words = [engine, f"--vocabulary={vocabulary}", f"--completion={completion}"]
            runs.append(run("memory_run.py", words, threads=1))
            console.print(json.dumps(runs[-1]), soft_wrap=True, highlight=False)
    text = table(runs)
    console.print(text, soft_wrap=True, highlight=False)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(runs, indent=1) + "\n")
    if arguments.docs:
        write_section("memory", f"{text}\n\n{machine(1)}.")


if __name__ == "__main__":
    main()
