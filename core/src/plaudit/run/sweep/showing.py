"""A sweep as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path

from .schema import SweepFile
from .trials import Trial

HEADERS = ("trial", "status", "step", "score", "seconds", "parameters")


def table_rows(sweep: SweepFile, trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """A row a trial, the best first; those without a score last."""
    sign = -1 if sweep.direction == "maximize" else 1
    found = [(trial, trial.score(sweep.metric, sweep.window)) for trial in trials]
    found.sort(key=lambda entry: sign * entry[1][1] if entry[1] and isfinite(entry[1][1]) else inf)
    return [
        (
            trial.name(),
            trial.status,
            "–" if score is None else str(score[0]),
            "–" if score is None else f"{score[1]:.4f}",
            f"{trial.ran_s():.0f}",
            trial.describe(sweep.varied),
        )
        for trial, score in found
    ]


def draw_sweep(sweep: SweepFile, trials: Sequence[Trial], path: Path) -> None:
    """Every trial's curve of the metric; what was stopped is thin."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    for trial in trials:
        points = trial.points(sweep.metric)
        if points:
            steps, values = zip(*points, strict=True)
            finished = trial.status == "finished"
            axes.plot(
                steps,
                values,
                lw=1.8 if finished else 0.9,
                alpha=1.0 if finished else 0.6,
                label=f"{trial.name()}: {trial.describe(sweep.varied)}",
            )
    axes.set_xlabel("step")
    axes.set_ylabel(sweep.metric)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower left", frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
