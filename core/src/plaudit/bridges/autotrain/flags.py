"""AITraining's command-line flags: every parameter, with hyphens or underscores."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from .params import LLMTrainingParams

_PREFIX = "autotrain."


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each parameter; those that are not given stay out of `given_flags`."""
    group = parser.add_argument_group(
        "AITraining's interface", "in place of a run file: an environment with build_dataset and score_episode"
    )
    hints = get_type_hints(LLMTrainingParams)
    for one in fields(LLMTrainingParams):
        kind = _plain_type(hints[one.name])
        hyphened = "--" + one.name.replace("_", "-")
        more: dict[str, Any] = {"type": kind, "metavar": one.name.rsplit("_", 1)[-1].upper()}
        if kind is bool:
            more = {"type": _boolean, "nargs": "?", "const": True, "metavar": "true|false"}
        default = "" if one.default is None else f" (default: {one.default})"
        group.add_argument(
            *dict.fromkeys((hyphened, "--" + one.name)),
            dest=_PREFIX + one.name,
            default=argparse.SUPPRESS,
            help=one.metadata["help"].replace("%", "%%") + default,
            **more,
        )


def given_flags(args: argparse.Namespace) -> dict[str, Any]:
    """The parameters that were given on the command line, by name."""
    return {name.removeprefix(_PREFIX): value for name, value in vars(args).items() if name.startswith(_PREFIX)}


def _plain_type(hint: Any) -> type:
    """The type that a flag's text is read as: of `int | None` it is int, of a text or mapping it is text."""
    named = [one for one in get_args(hint) or (hint,) if one in (bool, int, float, str)]
    return named[0] if named else str


def _boolean(text: str) -> bool:
    """As AITraining reads it: true/false in any case, also 1/0 and yes/no."""
    meanings = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in meanings:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return meanings[text.lower()]
