"""The options of a component on a command line: `--options JSON` and `--option KEY=VALUE`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from plaudit.errors import UsageError


def add_option_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --options and --option."""
    parser.add_argument("--options", default="{}", metavar="JSON", help="the component's options as a JSON object")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="one option; VALUE is JSON, or else text"
    )


def read_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of both arguments together. Raises UsageError on what is neither JSON nor KEY=VALUE."""
    try:
        options = json.loads(args.options)
    except json.JSONDecodeError as error:
        raise UsageError(f"--options {args.options!r} is not JSON: {error}") from None
    if not isinstance(options, dict):
        raise UsageError(f"--options {args.options!r} is not a JSON object; write e.g. '{{\"tolerance\": 0.1}}'")
    for assignment in args.option:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise UsageError(f"--option {assignment!r}: expected KEY=VALUE, e.g. --option tolerance=0.1")
        options[key.strip()] = json_or_text(text)
    return options


def json_or_text(text: str) -> Any:
    """The JSON value that `text` is, else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
