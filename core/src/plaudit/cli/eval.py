"""`plaudit eval BASE TUNED --data FILE --reward NAME`: the difference between two models on held-out rows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from plaudit.cli._table import print_table
from plaudit.cli._writing import check_output, write_rows
from plaudit.cli.generate import add_sampling_arguments, sampling_of
from plaudit.errors import PlauditError, UsageError

HELP = "compare two models on held-out rows, or measure one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit eval`."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help="one to measure, or two: the base and the tuned one")
    parser.add_argument("--data", required=True, metavar="FILE", help="held-out rows: .jsonl, .json, .csv or .parquet")
    parser.add_argument("--reward", action="append", required=True, metavar="NAME", help="a reward; may be repeated")
    parser.add_argument("--reference-column", metavar="NAME", help="a verifier's reference")
    parser.add_argument("--prompt-column", default="prompt", metavar="NAME", help="the prompts' column (%(default)s)")
    parser.add_argument("--system", metavar="TEXT", help="a system prompt; prompts become conversations")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N rows")
    parser.add_argument("-n", "--num", type=int, default=1, metavar="N", help="completions of each row (%(default)s)")
    parser.add_argument("--output", metavar="FILE", help="where every completion and score goes")
    add_sampling_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Generate, score and compare."""
    from plaudit.cli.train import require_packages

    if len(args.models) > 2:
        raise UsageError(f"{len(args.models)} models were given; expected one, or two to compare")
    if args.num < 1:
        raise UsageError(f"-n {args.num}: expected at least 1")
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit {args.limit}: expected at least 1")
    output = check_output(Path(args.output).expanduser()) if args.output else None
    sampling, specs = sampling_of(args), _specs(args)
    rows = _rows(args)
    require_packages()
    found = [_records(model, args, specs, rows, sampling) for model in args.models]
    if output is not None:
        write_rows(
            output, [{"model": name, **one} for name, some in zip(args.models, found, strict=True) for one in some]
        )
    names = [spec.name for spec in specs]
    _show(args, found, names)
    if output is not None:
        print(f"rows: {output}")
    return 0


def _specs(args: argparse.Namespace) -> list[Any]:
    from plaudit.plugins.loading import load_reward
    from plaudit.scoring.spec import RewardSpec, unique_names

    rewards = [load_reward(name, reference_column=args.reference_column) for name in args.reward]
    return unique_names([RewardSpec(reward, reward.__name__) for reward in rewards])


def _rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    from plaudit.run.data import load_data
    from plaudit.run.schema import DataSection

    columns = {} if args.prompt_column == "prompt" else {"prompt": args.prompt_column}
    section = DataSection(path=args.data, columns=columns, system_prompt=args.system, max_rows=args.limit)
    return [dict(row) for row in load_data(section, where="--data", seed=0).train]


def _records(model: str, args: argparse.Namespace, specs: list[Any], rows: list[Any], sampling: Any) -> list[Any]:
    from plaudit.grpo.generating.alone import scored_completions
    from plaudit.run.launch import quiet_libraries
    from plaudit.run.loading_models import load_for_inference

    with quiet_libraries():
        loaded, tokenizer = load_for_inference(model, dtype=args.dtype)
        return scored_completions(loaded, tokenizer, specs, rows, sampling, num_generations=args.num)


def _show(args: argparse.Namespace, found: list[list[Any]], names: list[str]) -> None:
    """One model's means, or both with the difference."""
    from plaudit.run.comparing import differences

    compared = differences(found[0], found[-1], names, per_row=args.num)
    if not compared:
        raise PlauditError("no row has a score of any reward; look at one with `plaudit try`, or give --output FILE")
    if len(found) == 1:
        print_table(("reward", "rows", "mean"), [(one.name, str(one.rows), f"{one.first:.3f}") for one in compared])
        return
    cells = [
        (
            one.name, str(one.rows), f"{one.first:.3f}", f"{one.second:.3f}", f"{one.second - one.first:+.3f}",
            f"{one.low:+.3f} to {one.high:+.3f}", f"{one.better} / {one.worse}", f"{one.p_value:.2g}",
        )
        for one in compared
    ]  # fmt: skip
    print_table(("reward", "rows", "base", "tuned", "difference", "95 %", "better / worse", "p"), cells)
