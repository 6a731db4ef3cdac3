"""How the time of a step grows: `python benchmarks/scaling.py [--docs | --redraw]`.

From G 8, P 64, C 32, V = 8,000, one reward, one of G, C, V and the number of rewards is changed at a time; both engines
do the same steps. Writes JSON, and with --docs a table and a picture into docs/, where points that were not measured
stay. --redraw measures nothing and draws the picture of the table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from sections import PAGE, markdown_table, place, read_rows, write_rows
from speed import run

BASE = {"prompts": 2, "generations": 8, "prompt": 64, "completion": 32, "vocabulary": 8_000, "layers": 4, "rewards": 1}
AXES = {
    "generations": ("completions a prompt, G", [2, 4, 8, 16, 32]),
    "completion": ("completion tokens, C", [16, 32, 64, 128, 256]),
    "vocabulary": ("vocabulary, V", [2_000, 8_000, 32_000, 128_000]),
    "rewards": ("rewards", [1, 4, 16, 64]),
}
ENGINES = ("plaudit", "trl")
HEADS = ["changed", "ours, CPU s a step", "TRL tuned, CPU s a step", "TRL ÷ ours"]
PICTURE = PAGE.with_name("scaling.png")
Points = Sequence[Mapping[str, Any]]


def measure(axis: str, value: int, engine: str, repeats: int, steps: int) -> dict[str, Any]:
    """Median CPU seconds of a step at one point."""
    changes = json.dumps({**BASE, axis: value, "steps": steps})
    words = ["model", engine, f"--change={changes}"]
    found = [run("speed_run.py", [*words, f"--seed={seed}"], threads=1)["cpu_s_a_step"] for seed in range(repeats)]
    return {"axis": axis, "value": value, "engine": engine, "cpu_s_a_step": median(found)}


def label(axis: str, value: int) -> str:
    """A point in words."""
    return f"{AXES[axis][0]} = {value:,}"


LABELS = {label(axis, value): (axis, value) for axis, (_, values) in AXES.items() for value in values}


def table_rows(points: Points) -> list[list[str]]:
    """The points as rows under HEADS."""
    seconds = {(point["axis"], point["value"], point["engine"]): point["cpu_s_a_step"] for point in points}
    rows = []
    for axis, value in dict.fromkeys((point["axis"], point["value"]) for point in points):
        ours, theirs = (seconds.get((axis, value, engine)) for engine in ENGINES)
        shown = [f"{found:.3f}" if found else "–" for found in (ours, theirs)]
        rows.append([label(axis, value), *shown, f"{theirs / ours:.2f}" if ours and theirs else "–"])
    return rows


def points_of(rows: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """The points of such rows."""
    return [
        {"axis": axis, "value": value, "engine": engine, "cpu_s_a_step": float(seconds)}
        for row in rows
        for axis, value in [LABELS[row[0]]]
        for engine, seconds in zip(ENGINES, row[1:3], strict=True)
        if seconds != "–"
    ]


def draw(points: Points, path: Path) -> None:
    """A panel for each axis, both scales logarithmic, a tick for each value."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, StrMethodFormatter

    figure, panels = pyplot.subplots(1, len(AXES), figsize=(12, 3.4), sharey=True)
    for panel, (axis, (name, values)) in zip(panels, AXES.items(), strict=True):
        for engine, legend, marker in zip(ENGINES, ("Plaudit", "TRL 1.16, tuned"), "os", strict=True):
            mine = [point for point in points if (point["axis"], point["engine"]) == (axis, engine)]
            panel.plot([p["value"] for p in mine], [p["cpu_s_a_step"] for p in mine], marker=marker, label=legend)
        panel.set(xscale="log", yscale="log", xlabel=name)
        panel.set_xticks(values, [f"{value // 1000}k" if value >= 1000 else str(value) for value in values])
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("CPU seconds a step")
    panels[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def write_docs(points: Points) -> None:
    """Put the points into the page, and draw all that it has."""
    write_rows("scaling", HEADS, table_rows(points), f"{place(1)}.", order=list(LABELS))
    draw_docs()


def draw_docs() -> None:
    """The picture of the page's table."""
    draw(points_of(read_rows("scaling")[1:]), PICTURE)


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--points", type=int, default=0, help="points of each axis; 0 = all")
    parser.add_argument("--json", type=Path, default=Path("runs/scaling.json"), help="where the figures are written")
    docs = parser.add_mutually_exclusive_group()
    docs.add_argument("--docs", action="store_true", help="write table and picture into docs/")
    docs.add_argument("--redraw", action="store_true", help="only draw the picture of the table in docs/ again")
    arguments = parser.parse_args()
    if arguments.redraw:
        draw_docs()
        return
    if arguments.docs and len(set(arguments.engines)) < len(ENGINES):
        parser.error("--docs compares: it needs both engines")
    console = Console()
    points = []
    for axis in arguments.axes:
        for value in AXES[axis][1][: arguments.points or None]:
            for engine in arguments.engines:
                points.append(measure(axis, value, engine, arguments.repeats, arguments.steps))
                console.print(json.dumps(points[-1]), soft_wrap=True, highlight=False)
    console.print(markdown_table(HEADS, table_rows(points)), soft_wrap=True, highlight=False)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(points, indent=1) + "\n")
    if arguments.docs:
        write_docs(points)
    else:
        draw(points, arguments.json.with_suffix(".png"))


if __name__ == "__main__":
    main()
