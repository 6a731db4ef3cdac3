"""`plaudit diff A B --data rows.jsonl`: what would change if B took A's place."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plaudit.cli._table import print_table
from plaudit.errors import UsageError

if TYPE_CHECKING:
    from plaudit.audit.difference import Difference

HELP = "compare two verifiers, or two versions of one, on the same rows"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit diff`."""
    parser.add_argument("a", metavar="A", help="a verifier or reward, or PATH.whl:NAME")
    parser.add_argument("b", metavar="B", help="the one that would take its place")
    parser.add_argument("--data", required=True, metavar="FILE", help="rows with completions and references")
    parser.add_argument("--column", default="completion", metavar="NAME", help="the completions' column (%(default)s)")
    parser.add_argument("--reference-column", metavar="NAME", help="the references' column")
    parser.add_argument("--num-generations", type=int, default=1, metavar="G", help="every G rows are a group")
    parser.add_argument(
        "--show", type=int, default=10, metavar="N", help="print the first N flipped rows (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Score the rows with both and print what differs; returns 0 either way."""
    from plaudit.audit.difference import difference
    from plaudit.audit.isolated import score_file
    from plaudit.run.files import read_rows

    rows = read_rows(args.data)
    if args.num_generations < 1 or len(rows) % args.num_generations:
        raise UsageError(f"{len(rows)} rows are no whole number of groups of {args.num_generations}")
    more = ["--column", args.column]
    more += ["--reference-column", args.reference_column] if args.reference_column else []
    more += ["--num-generations", str(args.num_generations)]
    left, right = (score_file(one, Path(args.data), more) for one in (args.a, args.b))
    found = difference(left, right, args.num_generations)
    flips = [{"row": i + 1, "a": left[i], "b": right[i], args.column: rows[i].get(args.column)} for i in found.flipped]
    if args.json:
        record = {"n": found.n, "flipped": len(found.flipped), "advantage_signs": len(found.signs)}
        print(json.dumps({**record, "abstentions": len(found.abstentions), "rows": flips}, ensure_ascii=False))
    else:
        _print(args, found, flips)
    return 0


def _print(args: argparse.Namespace, found: Difference, flips: list[dict[str, Any]]) -> None:
    if flips:
        shown = [(f["row"], _score(f["a"]), _score(f["b"]), str(f[args.column])[-80:]) for f in flips[: args.show]]
        print_table(("row", args.a, args.b, "completion (end)"), shown)
    print(
        f"{len(found.flipped)} of {found.n} rows score differently ({len(found.abstentions)} by an abstention); "
        f"{len(found.signs)} advantages change sign in groups of {args.num_generations}"
    )


def _score(score: float | None) -> str:
    return "abstains" if score is None else f"{score:g}"
