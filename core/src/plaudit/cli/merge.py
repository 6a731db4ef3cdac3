"""`plaudit merge ADAPTER TARGET`: an adapter merged into its model."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "merge a LoRA adapter into its model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit merge`."""
    parser.add_argument("adapter", type=Path, metavar="ADAPTER", help="folder of a saved adapter, e.g. runs/mine/model")
    parser.add_argument("target", type=Path, metavar="TARGET", help="folder to write the whole model to")
    parser.add_argument("--base", metavar="MODEL", help="the model it was trained on, by default the one it names")
    parser.add_argument("--dtype", metavar="DTYPE", help="of the weights that are written, e.g. bfloat16")


def run(args: argparse.Namespace) -> int:
    """Merge and say where the model is."""
    from plaudit.cli.train import require_packages
    from plaudit.run.merging import check_folders, merge_adapter

    check_folders(args.adapter, args.target)
    require_packages()
    from plaudit.run.launch import quiet_libraries

    with quiet_libraries():
        merge_adapter(args.adapter, args.target, base=args.base, dtype=args.dtype)
    print(f"model       {args.target}")
    return 0
