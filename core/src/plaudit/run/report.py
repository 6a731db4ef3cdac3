"""What came of a run: the lines printed at its end, and report.md in its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plaudit.run.folder import RunFolder
from plaudit.run.heldout import Evaluation
from plaudit.run.samples import plain_text, show_score

if TYPE_CHECKING:
    from rich.table import Table


def comparison_table(evaluations: Mapping[str, Evaluation], decoding: str) -> Table:
    """A rich table: each reward's mean on the held-out rows, before and after."""
    from rich.table import Table

    rows = next(iter(evaluations.values())).rows
    table = Table(title=f"held out, {rows} rows, {decoding}", title_justify="left", box=None, padding=(0, 3, 0, 0))
    table.add_column("reward")
    for when in evaluations:
        table.add_column(when, justify="right")
    for cells in comparison_rows(evaluations):
        table.add_row(*cells)
    return table


def write_report(
    folder: RunFolder,
    *,
    title: str,
    plan: Sequence[tuple[str, str]],
    evaluations: Mapping[str, Evaluation],
    decoding: str,
    findings: Sequence[Any] = (),
) -> None:
    """Write report.md: before and after, the curve, its health, what ran, sample completions."""
    lines = [f"# {title}", ""]
    if evaluations:
        header = ["reward", *evaluations]
        lines += [f"Held-out rows, {decoding}:", "", _row(header), _row(["---"] * len(header))]
        lines += [_row(cells) for cells in comparison_rows(evaluations)]
        lines.append("")
    if folder.curve.exists():
        lines += [f"![learning curve]({folder.curve.name})", ""]
    if findings:
        lines += ["## Health", "", *(f"- {finding.level}: {finding}" for finding in findings), ""]
    lines += ["## What ran", ""] + [f"- {name}: {text}" if name else f"- {text}" for name, text in plan] + [""]
    for when, evaluation in evaluations.items():
        lines += [f"## Completions {when} training", ""]
        for sample in evaluation.samples:
            lines += _sample(sample, list(evaluation.means))
    lines += [
        "`run.toml` and `plaudit.lock` say what ran; `metrics.jsonl`, `completions/`, `heldout.json` hold the numbers.",
        "",
    ]
    folder.report.write_text("\n".join(lines), encoding="utf-8")


def comparison_rows(evaluations: Mapping[str, Evaluation]) -> list[list[str]]:
    """Name and means of each reward, and of their sum where there are several."""
    first = next(iter(evaluations.values()))
    table = (
        [["reward (weighted sum)", *(show_score(one.reward) for one in evaluations.values())]]
        if len(first.means) > 1
        else []
    )
    for name in first.means:
        judged = f" ({first.judged[name]} rows)" if first.judged[name] != first.rows else ""
        table.append([f"{name}{judged}", *(show_score(one.means.get(name)) for one in evaluations.values())])
    return table


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _sample(sample: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    scores = ", ".join(f"{name} {sample[name]:g}" for name in names if sample[name] is not None)
    return [
        "````text",
        f"{plain_text(sample['prompt'])}",
        f"--> {plain_text(sample['completion'])}",
        "````",
        "",
        scores or "no score",
        "",
    ]
