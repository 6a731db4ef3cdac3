"""`plaudit try NAME --completion … --reference …`: one verdict, with its reason."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from plaudit.cli._options import add_option_arguments, json_or_text, read_options
from plaudit.errors import UsageError

HELP = "judge one completion and say why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit try`."""
    parser.add_argument("name", metavar="NAME", help="a verifier or reward")
    parser.add_argument("--completion", required=True, help="the text, or @FILE")
    parser.add_argument("--reference", help="what it is judged against: JSON or text, or @FILE")
    parser.add_argument("--prompt", default="", help="the prompt, or @FILE")
    parser.add_argument(
        "--column", action="append", default=[], metavar="NAME=VALUE", help="another column of the row; JSON or text"
    )
    add_option_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the verdict."""
    from dataclasses import asdict

    from plaudit.audit.timed import judge_one
    from plaudit.plugins.loading import load_reward

    reward = load_reward(args.name, options=read_options(args))
    columns = {"prompt": _text(args.prompt), **dict(_assignment(one) for one in args.column)}
    reference = None if args.reference is None else json_or_text(_text(args.reference))
    started = time.perf_counter()
    verdict = judge_one(reward, _text(args.completion), reference, columns)
    elapsed_ms = (time.perf_counter() - started) * 1000
    if args.json:
        print(json.dumps({**asdict(verdict), "milliseconds": elapsed_ms}, ensure_ascii=False, default=str))
        return 0
    score = "abstains" if verdict.score is None else f"{verdict.score:g}"
    print(f"{reward.__name__}: {score}" + (f" ({verdict.reason})" if verdict.reason else ""))
    for name, value in [("extracted", verdict.extracted), *verdict.metrics.items(), *verdict.columns.items()]:
        if value is not None:
            print(f"  {name}: {value}")
    print(f"  {elapsed_ms:.2f} ms")
    return 0


def _text(argument: str) -> str:
    if not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {argument[1:]}: {error}") from error


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--column {text!r}: expected NAME=VALUE")
    return name, json_or_text(value)
