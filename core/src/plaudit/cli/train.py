"""`plaudit train RUN.toml`: a run from its file, or from AITraining's flags."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from plaudit.bridges.autotrain.flags import add_flags, given_flags
from plaudit.errors import UsageError

HELP = "train a model as a run file says"
NEEDED = ("torch", "transformers", "accelerate", "datasets", "pyarrow", "matplotlib", "tomli_w")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit train`."""
    parser.add_argument("run_file", metavar="RUN.toml", nargs="?", help="the run file; see docs/reference/run-file.md")
    parser.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a value of the run file, e.g. config.max_steps=20 or reward.0.weight=2; may be repeated",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, generate and score a few rows, and stop"
    )
    parser.add_argument(
        "--help-config",
        nargs="?",
        const="",
        metavar="PART",
        help="print the fields of [config], or those with PART in their name, and stop",
    )
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--resume",
        nargs="?",
        const="latest",
        metavar="CHECKPOINT",
        help="continue from a checkpoint folder, by default the latest in output_dir",
    )
    start.add_argument("--overwrite", action="store_true", help="replace the run that output_dir already holds")
    parser.add_argument(
        "--locked", action="store_true", help="refuse to run when plaudit.lock of output_dir does not hold"
    )
    add_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Train; returns 0, or 130 when Ctrl-C ended it."""
    flags = given_flags(args)
    if flags and args.run_file is not None:
        raise UsageError(f"give a run file or AITraining's flags, not both: {args.run_file} and --{next(iter(flags))}")
    if args.run_file is None and args.help_config is None and not flags:
        raise UsageError("plaudit train needs a run file, for example: plaudit train run.toml")
    require_packages()
    if flags:
        return _train_by_flags(flags)
    if args.help_config is not None:
        from plaudit.run.config_help import config_help

        print("\n".join(config_help(args.help_config)))
        return 0
    from plaudit.run.launch import Launch, launch
    from plaudit.run.runfile import load_run_file

    how = Launch(dry_run=args.dry_run, resume=args.resume, overwrite=args.overwrite, locked=args.locked)
    return launch(load_run_file(args.run_file, args.assignments), how)


def _train_by_flags(flags: dict[str, Any]) -> int:
    from plaudit.bridges.autotrain import AutoTrainProject, LLMTrainingParams

    AutoTrainProject(params=LLMTrainingParams(**flags)).create()
    return 0


def require_packages() -> None:
    """Raise UsageError naming what `plaudit[train]` brings and is not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(f"plaudit train needs {', '.join(missing)}: pip install 'plaudit[train]'")
