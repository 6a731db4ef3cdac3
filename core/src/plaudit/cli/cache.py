"""`plaudit cache`: what the score cache holds, and forgetting it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from plaudit.errors import UsageError

HELP = "show or clear the scores kept on disk"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit cache`."""
    parser.add_argument("action", nargs="?", default="show", choices=["show", "clear"], help="(%(default)s)")
    parser.add_argument("--reward", metavar="NAME", help="clear the scores of one reward only")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the cache is ($PLAUDIT_CACHE, else ~/.cache)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Show or clear."""
    from plaudit.scoring.cache import FILE_NAME, clear, default_folder, usage

    path = (args.folder or default_folder()).expanduser() / FILE_NAME
    found = usage(path)
    if args.action == "clear":
        if args.reward is not None and args.reward not in {one.reward for one in found}:
            names = ", ".join(one.reward for one in found) or "none"
            raise UsageError(f"the cache has no scores of '{args.reward}'; it has: {names}")
        count = clear(path, args.reward)
        print(json.dumps({"cleared": count}) if args.json else f"cleared {count} scores from {path}")
        return 0
    if args.json:
        rewards = [{"reward": one.reward, "entries": one.entries, "bytes": one.bytes} for one in found]
        print(json.dumps({"path": str(path), "rewards": rewards}, indent=2))
        return 0
    if not found:
        print(f"the cache {path} is empty; a reward with cache = true fills it")
        return 0
    from plaudit.cli._table import print_table

    print_table(("reward", "scores", "MB"), [(one.reward, one.entries, f"{one.bytes / 2**20:.2f}") for one in found])
    print(path)
    return 0
