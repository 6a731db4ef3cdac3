"""`plaudit check PATH`: whether a package is ready to publish, or why not."""

from __future__ import annotations

import argparse
from pathlib import Path

from plaudit.cli._table import print_table

HELP = "say whether a plugin package is ready to publish"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit check`."""
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="the package's folder (here)")


def run(args: argparse.Namespace) -> int:
    """Print every finding; returns 1 unless all checks held."""
    from plaudit.authoring.readiness import check_package

    findings = check_package(Path(args.path))
    print_table(("check", "", "found"), [(one.check, "ok" if one.ok else "NO", one.detail) for one in findings])
    ready = all(one.ok for one in findings)
    print("ready to publish" if ready else "not ready to publish")
    return 0 if ready else 1
