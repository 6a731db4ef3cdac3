"""`plaudit sweep SWEEP.toml`: several configurations of a run side by side."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from plaudit.errors import UsageError

HELP = "run several configurations side by side, stop bad ones, clone good ones"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit sweep`."""
    parser.add_argument("sweep_file", metavar="SWEEP.toml", help="the sweep; see docs/guide/sweeps.md")
    parser.add_argument("--overwrite", action="store_true", help="replace the sweep that output_dir already holds")


def run(args: argparse.Namespace) -> int:
    """Run the sweep; print the table and say where the best run is."""
    from plaudit.cli._table import print_table
    from plaudit.cli.train import require_packages
    from plaudit.run.runfile import load_run_file
    from plaudit.run.sweep.runner import Sweep
    from plaudit.run.sweep.schema import load_sweep_file
    from plaudit.run.sweep.search import Search
    from plaudit.run.sweep.showing import HEADERS, draw_sweep, table_rows

    file = load_sweep_file(args.sweep_file)
    require_packages()
    search = Search(file)
    load_run_file(file.run)
    root = _folder(file.output_dir, overwrite=args.overwrite)
    sweep = Sweep(file, search, lambda text: print(text, flush=True))
    trials = sweep.run()
    draw_sweep(file, trials, root / "sweep.png")
    print()
    print_table(HEADERS, table_rows(file, trials))
    best = sweep.best()
    if best is not None:
        print(f"\nbest        {best.folder.root}")
    print(f"picture     {root / 'sweep.png'}")
    return 0


def _folder(output_dir: str, *, overwrite: bool) -> Path:
    root = Path(output_dir)
    if (root / "sweep.json").exists():
        if not overwrite:
            raise UsageError(f"'{root}' holds a sweep already; --overwrite replaces it")
        for folder in root.glob("trial-*"):
            shutil.rmtree(folder)
    return root
