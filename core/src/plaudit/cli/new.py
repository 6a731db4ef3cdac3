"""`plaudit new KIND NAME`: a complete package that passes its own tests as written."""

from __future__ import annotations

import argparse
from pathlib import Path

from plaudit.errors import UsageError

HELP = "write a new reward, verifier, environment or sandbox as a package"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit new`."""
    parser.add_argument(
        "kind", metavar="KIND", choices=("reward", "verifier", "environment", "sandbox"), help="%(choices)s"
    )
    parser.add_argument("name", metavar="NAME", help="the name that a run file will say, e.g. my-reward")
    parser.add_argument("--directory", default=".", metavar="DIR", help="where the package's folder goes (here)")
    parser.add_argument("--description", metavar="TEXT", help="one line for the package's metadata")


def run(args: argparse.Namespace) -> int:
    """Write it and say what to do next."""
    from plaudit.authoring.scaffold import write_package

    folder = Path(args.directory)
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    home = write_package(args.kind, args.name, folder, description=args.description)
    print(f"wrote {home}")
    print(f"next: cd {home} && pip install -e .[test] && pytest && plaudit check .")
    return 0
