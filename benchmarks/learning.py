"""Does it learn, and at what cost: the quickstart task over several seeds, beside TRL if asked.

    python benchmarks/learning.py --peer trl --seeds 0 1 2

Each run is a process of its own with the same model, prompts, reward, learning rate, steps and threads; the engines
take turns. Prints accuracy on held-out sums and CPU seconds a step (accuracy checks not counted), the medians, and TRL
over ours; writes all of it as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

RUN = Path(__file__).with_name("learning_run.py")
Report = Mapping[str, Any]


def run(engine: str, seed: int, arguments: argparse.Namespace) -> Report:
    """One training run in a process of its own."""
    passed = ("steps", "prompts", "generations", "threads", "rows", "lr", "check_every")
    words = [f"--{name.replace('_', '-')}={getattr(arguments, name)}" for name in passed]
    threads = str(arguments.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(RUN), engine, f"--seed={seed}", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_all(arguments: argparse.Namespace, console: Console) -> list[Report]:
    """Every engine on every seed; which goes first changes with the seed."""
    engines = ["plaudit", *([arguments.peer] if arguments.peer else [])]
    reports = []
    for place, seed in enumerate(arguments.seeds):
        for engine in engines if place % 2 == 0 else reversed(engines):
            reports.append(run(engine, seed, arguments))
            console.print(describe(reports[-1]), soft_wrap=True)
    return reports


def describe(report: Report) -> str:
    """One line about one run."""
    before, after = report["before"], report["after"]
    accuracies = ", ".join(f"{how} {before[how]:.3f} -> {after[how]:.3f}" for how in ("sampled", "greedy"))
    return f"{report['engine']:8s} seed {report['seed']}: {accuracies}, {report['cpu_s_a_step']:.3f} CPU s a step"


def summarise(reports: Sequence[Report]) -> dict[str, Any]:
    """Medians of each engine, and the peer over ours: of the medians, and seed by seed."""
    engines = dict.fromkeys(report["engine"] for report in reports)
    medians = {engine: _medians([report for report in reports if report["engine"] == engine]) for engine in engines}
    summary: dict[str, Any] = {"medians": medians}
    for peer in [engine for engine in engines if engine != "plaudit"]:
        seconds = {(report["engine"], report["seed"]): report["cpu_s_a_step"] for report in reports}
        ratios = [seconds[peer, seed] / seconds["plaudit", seed] for engine, seed in seconds if engine == peer]
        summary[f"{peer}_over_plaudit"] = {
            "cpu_s_a_step": medians[peer]["cpu_s_a_step"] / medians["plaudit"]["cpu_s_a_step"],
            "by_seed": ratios,
        }
    return summary


def _medians(reports: Sequence[Report]) -> dict[str, float]:
    return {
        "greedy": median(report["after"]["greedy"] for report in reports),
        "sampled": median(report["after"]["sampled"] for report in reports),
        "cpu_s_a_step": median(report["cpu_s_a_step"] for report in reports),
        "wall_s_a_step": median(report["wall_s_a_step"] for report in reports),
    }


def table(reports: Sequence[Report], summary: Mapping[str, Any]) -> Table:
    """The runs and the medians."""
    shown = Table("engine", "seed", "greedy", "sampled", "CPU s a step", "wall s a step")
    for report in sorted(reports, key=lambda report: (report["engine"], report["seed"])):
        after = report["after"]
        shown.add_row(report["engine"], str(report["seed"]), *_numbers({**report, **after}))
    for engine, medians in summary["medians"].items():
        shown.add_row(f"[bold]{engine}", "median", *_numbers(medians))
    return shown


def _numbers(values: Mapping[str, Any]) -> list[str]:
    return [f"{values[name]:.3f}" for name in ("greedy", "sampled", "cpu_s_a_step", "wall_s_a_step")]


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=["trl"], help="train with this engine too")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--prompts", type=int, default=16, help="prompts a step")
    parser.add_argument("--generations", type=int, default=8, help="completions for each prompt")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=512, help="held-out sums to measure accuracy on")
    parser.add_argument("--check-every", type=int, default=0, help="steps between accuracy checks; 0 = only at the end")
    parser.add_argument("--json", type=Path, default=Path("runs/learning.json"), help="where the figures are written")
    arguments = parser.parse_args()
    console = Console()
    reports = run_all(arguments, console)
    summary = summarise(reports)
    console.print(table(reports, summary))
    if arguments.peer:
        ratio = summary[f"{arguments.peer}_over_plaudit"]["cpu_s_a_step"]
        console.print(f"CPU seconds a step, {arguments.peer} over plaudit: {ratio:.2f}")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in vars(arguments).items()}
    arguments.json.write_text(json.dumps({"settings": settings, "runs": reports, **summary}, indent=1) + "\n")


if __name__ == "__main__":
    main()
