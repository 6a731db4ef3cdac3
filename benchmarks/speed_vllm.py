"""How long a step takes with vLLM in the process, beside TRL: the quickstart task on a CPU.

    make vllm-env && .venv-vllm/bin/python benchmarks/speed_vllm.py

Each run is a process of its own, as in learning.py; the engines take turns. TRL cannot push weights to vLLM on a CPU
without the change that learning_run.py makes to vLLM for it. Prints medians and TRL over ours; writes them as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TORCH_COMPILE_DISABLE": "1",  # TRL starts vLLM so that it compiles, which takes minutes here
}
MEASURED = ("cpu_s_a_step", "wall_s_a_step")


def run(engine: str, seed: int, steps: int) -> dict[str, Any]:
    """One training run."""
    script = Path(__file__).with_name("learning_run.py")
    command = [sys.executable, str(script), engine, "--vllm", f"--seed={seed}", f"--steps={steps}"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT}, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def summarise(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of each engine, and TRL over ours."""
    medians = {
        engine: {name: median(found[name] for found in runs if found["engine"] == engine) for name in MEASURED}
        for engine in ("plaudit", "trl")
    }
    ratio = {name: medians["trl"][name] / medians["plaudit"][name] for name in MEASURED}
    return {"medians": medians, "trl_over_plaudit": ratio}


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", type=Path, default=Path("runs/speed_vllm.json"), help="where the figures are written")
    arguments = parser.parse_args()
    console, runs = Console(), []
    shown = Table("engine", "seed", "CPU s a step", "wall s a step", "greedy before", "greedy after")
    for place, seed in enumerate(arguments.seeds):
        for engine in ("plaudit", "trl") if place % 2 == 0 else ("trl", "plaudit"):
            found = run(engine, seed, arguments.steps)
            runs.append(found)
            accuracies = [found[when]["greedy"] for when in ("before", "after")]
            shown.add_row(
                engine, str(seed), *(f"{value:.3f}" for value in (*[found[name] for name in MEASURED], *accuracies))
            )
    summary = summarise(runs)
    console.print(shown)
    console.print(f"CPU seconds a step, trl over plaudit: {summary['trl_over_plaudit']['cpu_s_a_step']:.2f} (bar 1.0)")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({"runs": runs, **summary}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
