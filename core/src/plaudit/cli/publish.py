"""`plaudit publish PATH`: check a package, build it, and hand it to twine."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from plaudit.errors import UsageError

HELP = "check a plugin package and upload it with twine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit publish`."""
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="the package's folder (here)")
    parser.add_argument("--dry-run", action="store_true", help="stop before the upload")
    parser.add_argument(
        "twine", nargs=argparse.REMAINDER, metavar="-- ARGS", help="arguments for `twine upload`, behind --"
    )


def run(args: argparse.Namespace) -> int:
    """Check, build sdist and wheel, `twine check`, `twine upload`; returns twine's exit code."""
    from plaudit.authoring.environment import run_command
    from plaudit.cli import check

    if check.run(argparse.Namespace(path=args.path)):
        raise UsageError("nothing was uploaded: mend what `plaudit check` lists first")
    with tempfile.TemporaryDirectory(prefix="plaudit-publish-") as folder:
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, args.path]
        run_command(build)
        made = sorted(str(path) for path in Path(folder).iterdir())
        print(run_command([sys.executable, "-m", "twine", "check", "--strict", *made]).strip())
        if args.dry_run:
            return 0
        more = [argument for argument in args.twine if argument != "--"]
        return subprocess.run([sys.executable, "-m", "twine", "upload", *more, *made], check=False).returncode
