"""`plaudit llm --train --trainer grpo …`: AITraining's command line, word for word."""

from __future__ import annotations

import argparse

from plaudit.bridges.autotrain.flags import add_flags, given_flags
from plaudit.errors import UsageError

HELP = "AITraining's command line: plaudit llm --train --trainer grpo …"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit llm`."""
    parser.add_argument("--train", action="store_true", help="train; there is nothing else to do here")
    parser.add_argument("--backend", default="local", metavar="BACKEND", help="where: local is the one there is")
    add_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Train."""
    if not args.train:
        raise UsageError("plaudit llm trains: add --train")
    from plaudit.bridges.autotrain import AutoTrainProject, LLMTrainingParams
    from plaudit.cli.train import require_packages

    require_packages()
    AutoTrainProject(params=LLMTrainingParams(**given_flags(args)), backend=args.backend).create()
    return 0
