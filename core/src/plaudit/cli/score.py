"""`plaudit score REWARD --data FILE`: score completions that exist already, with no model and no torch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plaudit.cli._options import add_option_arguments, read_options
from plaudit.cli._quiet import quiet_runtime
from plaudit.cli._table import print_table
from plaudit.cli._writing import check_output, write_rows
from plaudit.errors import UsageError
from plaudit.types import Rollout, Row

if TYPE_CHECKING:
    from plaudit.plugins.component import Reward
    from plaudit.scoring.table import ScoreTable

HELP = "score the completions of a file with a reward or verifier, offline"
SHOWN_FAILURES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit score`."""
    parser.add_argument("reward", metavar="REWARD", help="math, plaudit-math:math, package.module:name, ./file.py:name")
    parser.add_argument("--data", required=True, metavar="FILE", help="a .jsonl, .json, .csv or .parquet file")
    parser.add_argument(
        "--column", default="completion", metavar="NAME", help="the completions' column: text or messages (%(default)s)"
    )
    parser.add_argument("--prompt-column", default="prompt", metavar="NAME", help="the prompts' column (%(default)s)")
    parser.add_argument(
        "--reference-column", metavar="NAME", help="a verifier's reference (reference, answer, solution or gold)"
    )
    add_option_arguments(parser)
    parser.add_argument(
        "--output", metavar="FILE", help="where the scored rows go: .jsonl, .json, .csv, .parquet (NAME.scored.jsonl)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N rows")
    parser.add_argument(
        "--num-generations", type=int, default=1, metavar="G", help="every G rows are a group, for rewards that compare"
    )
    parser.add_argument("--timeout-s", type=float, metavar="S", help="give up a call after this long, 0 = never")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Score, print the summary, write the rows; returns 1 when calls failed and nothing was scored."""
    import time

    from plaudit.plugins.loading import load_reward
    from plaudit.run.files import read_rows

    output = check_output(Path(args.output or f"{Path(args.data).stem}.scored.jsonl").expanduser())
    if output.resolve() == Path(args.data).expanduser().resolve():
        raise UsageError(f"--output {args.output} is the data itself; write the scored rows to another file")
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit {args.limit}: expected at least 1")
    reward = load_reward(args.reward, options=read_options(args), reference_column=args.reference_column)
    records = read_rows(args.data, text=(args.column, args.prompt_column))[: args.limit]
    rollouts = _rollouts(records, args)
    _check_token_ids(reward, records)
    started = time.perf_counter()
    table = _score(reward, rollouts, args)
    summary = _summary(table, time.perf_counter() - started)
    write_rows(output, _scored(records, table))
    if args.json:
        print(json.dumps(summary | {"output": str(output)}, indent=2))
    else:
        _print_summary(summary, table)
        print(f"rows: {output}")
    return 1 if summary["failures"] and not summary["scored"] else 0


def _rollouts(records: Sequence[dict[str, Any]], args: argparse.Namespace) -> list[Rollout]:
    """A rollout a record. Raises UsageError on a missing column or on what is neither text nor messages."""
    group = args.num_generations
    if group < 1 or len(records) % group:
        raise UsageError(f"{len(records)} rows are no whole number of groups of {group}; set --num-generations")
    names = dict.fromkeys(name for record in records for name in record)
    for option, column in (("--column", args.column), ("--reference-column", args.reference_column)):
        if column is not None and column not in names:
            raise UsageError(_no_column(option, column, list(names), args.data))
    taken = {args.column, args.prompt_column}
    rollouts = []
    for index, record in enumerate(records):
        completion = record.get(args.column)
        if completion is None or not _is_text(completion):
            raise UsageError(
                f"{args.data} row {index + 1}: column '{args.column}' is {completion!r:.60}; expected text or messages"
            )
        columns = {name: record.get(name) for name in names if name not in taken}
        row = Row(prompt=record.get(args.prompt_column) or "", columns=columns)
        rollouts.append(Rollout(index, row, completion, completion_ids=tuple(record.get("completion_ids") or ())))
    return rollouts


def _no_column(option: str, column: str, names: list[str], data: str) -> str:
    import difflib

    near = difflib.get_close_matches(column, names, n=1)
    hint = f"did you mean {option} {near[0]}?" if near else f"set {option}"
    return f"{data} has no column '{column}' (columns: {', '.join(names)}); {hint}"


def _is_text(completion: Any) -> bool:
    if isinstance(completion, list):
        return all(isinstance(message, dict) for message in completion)
    return isinstance(completion, str)


def _check_token_ids(reward: Reward, records: Sequence[dict[str, Any]]) -> None:
    if "completion_ids" in reward.component.signature.required and not any("completion_ids" in row for row in records):
        raise UsageError(
            f"'{reward.__name__}' needs token ids; give the rows a column completion_ids (lists of numbers)"
        )


def _score(reward: Reward, rollouts: Sequence[Rollout], args: argparse.Namespace) -> ScoreTable:
    from plaudit.scoring.scorer import Scorer
    from plaudit.scoring.spec import RewardSpec

    # Every row is tried: a breaker would leave out the rest after a streak of failures.
    spec = RewardSpec(reward, reward.__name__, timeout_s=args.timeout_s, breaker_failures=len(rollouts) + 1)
    rows = [rollout.row for rollout in rollouts]
    with (
        quiet_runtime(),
        Scorer([spec], max_unscored_share=None) as scorer,
        scorer.open(rows, num_generations=args.num_generations, mode="eval") as session,
    ):
        for rollout in rollouts:
            session.submit(rollout)
        return session.result()


def _scored(records: Sequence[dict[str, Any]], table: ScoreTable) -> list[dict[str, Any]]:
    """The records with score, reason, extracted and what was logged; `reward/name` where a name is taken."""
    name = table.names[0]
    count = len(records)
    added: dict[str, Sequence[Any]] = {"score": [row[0] for row in table.scores]}
    for column in ("reason", "extracted"):
        added[column] = table.columns.get(f"{name}/{column}", (None,) * count)
    added |= {
        c.removeprefix(f"{name}/"): v for c, v in table.columns.items() if c.removeprefix(f"{name}/") not in added
    }
    there = {column for record in records for column in record}
    final = {column if column not in there else f"{name}/{column}": values for column, values in added.items()}
    return [record | {column: values[i] for column, values in final.items()} for i, record in enumerate(records)]


def _summary(table: ScoreTable, wall_s: float) -> dict[str, Any]:
    from collections import Counter

    scores = [row[0] for row in table.scores if row[0] is not None]
    failed = {index for failure in table.failures for index in failure.rollouts}
    prefix = f"scoring/{table.names[0]}"
    latency = {q: table.runtime.get(f"{prefix}/latency_{q}_s") for q in ("p50", "p95", "max")}
    return {
        "reward": table.names[0],
        "n": len(table.scores),
        "scored": len(scores),
        "mean": sum(scores) / len(scores) if scores else None,
        "min": min(scores, default=None),
        "max": max(scores, default=None),
        "abstained": len(table.scores) - len(scores) - len(failed),
        "failures": len(failed),
        "failures_by_kind": dict(Counter(f.kind for f in table.failures for _ in f.rollouts)),
        "metrics": dict(table.metrics),
        "latency_p50_s": latency["p50"],
        "latency_p95_s": latency["p95"],
        "latency_max_s": latency["max"],
        "wall_s": wall_s,
    }


def _print_summary(summary: dict[str, Any], table: ScoreTable) -> None:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.4g}"

    times = [summary[f"latency_{q}_s"] for q in ("p50", "p95", "max")]
    latency = " / ".join("–" if t is None else f"{t * 1000:.3g}" for t in times)
    headers = ("reward", "n", "mean", "min", "max", "abstained", "failures", "latency p50 / p95 / max (ms)", "wall (s)")
    numbers = [number(summary[key]) for key in ("mean", "min", "max")]
    print_table(
        headers,
        [
            (
                summary["reward"], summary["n"], *numbers, summary["abstained"], summary["failures"], latency,
                number(summary["wall_s"]),
            )
        ],
    )  # fmt: skip
    for name, value in summary["metrics"].items():
        print(f"{name}: {value:.4g}")
    for failure in table.failures[:SHOWN_FAILURES]:
        print(f"row {failure.rollouts[0] + 1} failed: {failure.message}", file=sys.stderr)
    if len(table.failures) > SHOWN_FAILURES:
        print(f"… and {len(table.failures) - SHOWN_FAILURES} more; see the column failure", file=sys.stderr)
