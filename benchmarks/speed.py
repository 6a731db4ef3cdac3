"""How long a step takes, beside TRL: `python benchmarks/speed.py [--workload NAME ...] [--docs]`.

The golden vectors are checked first. Then each competitor (ours, TRL tuned for a CPU with bf16=False and
gradient_checkpointing=False, TRL as it comes) does the same steps in processes of its own, taking turns, once for each
repeat. Prints medians of CPU and wall seconds a step and TRL over ours, with the bar of each workload; writes all of it
as JSON, and with --docs into docs/benchmarks.md, where rows of workloads that were not measured stay.
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

from golden import GOLDEN, report
from rich.console import Console
from sections import markdown_table, place, write_rows
from workloads import WORKLOADS

HERE = Path(__file__).parent
COMPETITORS = ("plaudit", "trl", "trl-defaults")
Runs = Sequence[Mapping[str, Any]]


def check_golden(console: Console) -> None:
    """Stop unless losses and advantages are those of the golden vectors."""
    found = report(json.loads(GOLDEN.read_text()))
    worst = max(value for part in found.values() for name, value in part.items() if name != "n")
    console.print(f"golden vectors: {sum(part['n'] for part in found.values())} cases, worst error {worst:.1e}")
    if worst > 1e-5:
        raise SystemExit("the losses are not those of the golden vectors, so speed says nothing")


def run(script: str, words: Sequence[str], threads: int) -> dict[str, Any]:
    """The last line of JSON that a script of this folder prints, in a process of its own."""
    count = str(threads)
    environment = {**os.environ, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(HERE / script), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_all(arguments: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Every competitor on every workload, in turns that change with the repeat."""
    runs = []
    for name in arguments.workload:
        for repeat in range(arguments.repeats):
            competitors = arguments.competitors if repeat % 2 == 0 else reversed(arguments.competitors)
            for competitor in competitors:
                words = [name, competitor, f"--seed={repeat}", f"--threads={arguments.threads}"]
                if arguments.steps:
                    words.append(f"--change={json.dumps({'steps': arguments.steps})}")
                runs.append(run(WORKLOADS[name].script, words, arguments.threads))
                console.print(json.dumps(runs[-1]), soft_wrap=True, highlight=False)
    return runs


def medians(runs: Runs, workload: str, competitor: str) -> dict[str, float]:
    """Median seconds a step of a competitor on a workload."""
    mine = [found for found in runs if (found["workload"], found["competitor"]) == (workload, competitor)]
    names = ("cpu_s_a_step", "wall_s_a_step", "pass_cpu_s_a_step")
    return {name: median(found[name] for found in mine) for name in names} if mine else {}


def summarise(runs: Runs) -> list[dict[str, Any]]:
    """A line for each workload: what each competitor took, and TRL over ours."""
    lines = []
    for name in dict.fromkeys(found["workload"] for found in runs):
        found = {competitor: medians(runs, name, competitor) for competitor in COMPETITORS}
        ours = found["plaudit"]
        line: dict[str, Any] = {"workload": name, **found, "bar": WORKLOADS[name].bar}
        for competitor in COMPETITORS[1:]:
            line[f"{competitor}_over_plaudit"] = {
                key: found[competitor][key] / ours[key] for key in found[competitor] if ours.get(key)
            }
        rewards = {found["competitor"]: found["reward"] for found in runs if "reward" in found}
        lines.append({**line, "reward": rewards} if name == "quickstart" else line)
    return lines


HEADS = ["workload", "step, ours", "step, TRL tuned", "step, TRL as it comes", "× CPU", "× wall", "pass, ours"]
HEADS += ["pass, TRL tuned", "× pass", "bar"]


def table_rows(lines: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The summary as rows under HEADS."""
    rows = []
    for line in lines:
        workload, over = WORKLOADS[line["workload"]], line["trl_over_plaudit"]
        bar = f"{workload.bar}" + (f", pass {workload.pass_bar}" if workload.pass_bar else "")
        seconds = [_seconds(line[competitor], "cpu_s_a_step") for competitor in COMPETITORS]
        passes = [_seconds(line[competitor], "pass_cpu_s_a_step") for competitor in COMPETITORS[:2]]
        ratios = [f"{over[key]:.2f}" if over else "–" for key in ("cpu_s_a_step", "wall_s_a_step", "pass_cpu_s_a_step")]
        rows.append([workload.what, *seconds, *ratios[:2], *passes, ratios[2], bar])
    return rows


def _seconds(found: Mapping[str, float], key: str) -> str:
    return f"{found[key]:.3f}" if found else "–"


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--competitors", nargs="+", choices=COMPETITORS, default=list(COMPETITORS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="steps to measure; 0 = those of the workload")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("runs/speed.json"), help="where the figures are written")
    parser.add_argument("--docs", action="store_true", help="write the rows into docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.docs and not {"plaudit", "trl"} <= set(arguments.competitors):
        parser.error("--docs compares: it needs the competitors plaudit and trl")
    console = Console()
    check_golden(console)
    runs = run_all(arguments, console)
    lines = summarise(runs)
    rows = table_rows(lines)
    console.print(markdown_table(HEADS, rows), soft_wrap=True, highlight=False)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({"runs": runs, "summary": lines}, indent=1) + "\n")
    if arguments.docs:
        note = f"{place(arguments.threads)}, medians of {arguments.repeats}."
        write_rows("speed", HEADS, rows, note, order=[workload.what for workload in WORKLOADS.values()])


if __name__ == "__main__":
    main()
