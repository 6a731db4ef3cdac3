"""`plaudit sweep SWEEP.toml`: several configurations of a run side by side."""

from __future__ import annotations

import argparse

HELP = "run several configurations side by side, stop bad ones, clone good ones"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit sweep`."""
    parser.add_argument("sweep_file", metavar="SWEEP.toml", help="the sweep; see docs/guide/sweeps.md")
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--resume",
        action="store_true",
        help="go on with the sweep in output_dir: what has ended stays, what ran goes on from its last checkpoint",
    )
    start.add_argument("--overwrite", action="store_true", help="replace the sweep that output_dir already holds")


def run(args: argparse.Namespace) -> int:
    """Run the sweep; print the table and say where the best run is."""
    from plaudit.cli._table import print_table
    from plaudit.cli.train import require_packages
    from plaudit.run.signals import terminated_as_interrupt
    from plaudit.run.sweep.checking import check_run_file
    from plaudit.run.sweep.keeping import sweep_folder
    from plaudit.run.sweep.runner import Sweep
    from plaudit.run.sweep.schema import load_sweep_file
    from plaudit.run.sweep.search import Search
    from plaudit.run.sweep.showing import HEADERS, draw_sweep, table_rows

    file = load_sweep_file(args.sweep_file)
    require_packages()
    search = Search(file)
    check_run_file(file)
    with sweep_folder(file, resume=args.resume, overwrite=args.overwrite) as root:
        picture = root / "sweep.png"
        sweep = Sweep(
            file, search, lambda text: print(text, flush=True), lambda trials: draw_sweep(file, trials, picture)
        )
        try:
            with terminated_as_interrupt():
                if args.resume:
                    sweep.restore()
                trials = sweep.run()
        except KeyboardInterrupt:
            print(f"stopped; continue with: plaudit sweep {args.sweep_file} --resume", flush=True)
            raise
    print()
    print_table(HEADERS, table_rows(file, trials))
    best = sweep.best()
    if best is not None:
        print(f"\nbest        {best.folder.root}")
    print(f"picture     {picture}")
    return 0
