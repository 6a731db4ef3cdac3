"""The learning curve of a run as a picture, from its metrics.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The log lines of a run in order; a last line that was cut off is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def series(records: Sequence[Mapping[str, Any]], name: str) -> list[Point]:
    """(step, value) of one metric wherever it was logged."""
    return [(record["step"], record[name]) for record in records if isinstance(record.get(name), (int, float))]


def draw_curve(
    records: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    path: Path,
    *,
    title: str,
    heldout: Mapping[str, Sequence[Point]] | None = None,
    decoding: str = "greedy",
) -> None:
    """Write a picture with three panels: reward, each reward's mean, completion length.

    `names`: the rewards. `heldout`: (step, mean score) on held-out rows, by reward, decoded as `decoding` says.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (total, each, length) = pyplot.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    _panel_reward(total, records)
    _panel_scores(each, records, names, heldout or {}, decoding)
    _panel_length(length, records)
    for axes in (total, each, length):
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _panel_reward(axes: Axes, records: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("reward")
    mean, spread = series(records, "reward"), dict(series(records, "reward_std"))
    if mean:
        steps, values = zip(*mean, strict=True)
        low = [value - spread.get(step, 0.0) for step, value in mean]
        high = [value + spread.get(step, 0.0) for step, value in mean]
        axes.fill_between(steps, low, high, alpha=0.15, linewidth=0)
        axes.plot(steps, values, label="training, mean ± std")
    _plot(axes, series(records, "eval_reward"), "held out, sampled", marker="o", color="tab:orange")


def _panel_scores(
    axes: Axes,
    records: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    heldout: Mapping[str, Sequence[Point]],
    decoding: str,
) -> None:
    axes.set_title("score by reward")
    for index, name in enumerate(names):
        color = f"C{index}"
        _plot(axes, series(records, f"rewards/{name}/mean"), f"{name}, training", color=color, alpha=0.6)
        _plot(axes, series(records, f"eval_rewards/{name}/mean"), f"{name}, held out", color=color, marker="o")
        _plot(
            axes,
            heldout.get(name, ()),
            f"{name}, held out, {decoding}",
            color=color,
            marker="*",
            linestyle="none",
            markersize=12,
        )
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def _panel_length(axes: Axes, records: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("completion length, tokens")
    _plot(axes, series(records, "completions/mean_length"), "mean")
    _plot(axes, series(records, "completions/max_length"), "longest", alpha=0.5)
    axes.set_ylim(bottom=0, top=1.08 * axes.get_ylim()[1])


def _plot(axes: Axes, points: Sequence[Point], label: str, **style: Any) -> None:
    if points:
        axes.plot(*zip(*points, strict=True), label=label, **style)
