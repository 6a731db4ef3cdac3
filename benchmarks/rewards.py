"""What rewards cost a step, beside TRL in the same run.

    python benchmarks/rewards.py [--peer trl] [--only four,overhead] [--json FILE]

four          two sync and two async rewards of 0.4 s on 8 rollouts
environments  async get_reward of 0.1 s on 8 rollouts
beside        a 1 s I/O reward a rollout, 64 rollouts that finish evenly over a generation of 2 s
lookahead     the same over several steps, the next batch generating while the last rewards arrive
overhead      a no-op reward on 1,024 rollouts, beyond the bare function
hostile       9^{9^{9^{9}}} and (10^7)! among 8 answers given to the math reward, timeout 5 s
hostile_raw   the same given to a verifier that evaluates them (rewards_raw_math.py)

TRL's part is its trainer's own reward code on the same rollouts; where it needs the generation to end first, the 2 s
are slept. Wall seconds, the median of `--repeat`; on a busy machine look at the CPU figures of `overhead`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from plaudit import load_reward
from rewards_hostile import hostile, hostile_raw
from rewards_overhead import overhead
from rewards_peer import Trl
from rewards_waiting import Figures, beside, environments, four, lookahead
from rich.console import Console
from rich.table import Table

SCENARIOS: dict[str, Callable[[Trl | None], Figures]] = {
    "four": four, "environments": environments, "beside": beside, "lookahead": lookahead, "overhead": overhead,
    "hostile": hostile, "hostile_raw": hostile_raw,
}  # fmt: skip


def middle(values: Sequence[float | str | None]) -> float | str | None:
    """The median of numbers; of anything else, the first."""
    numbers = [value for value in values if isinstance(value, float)]
    return median(numbers) if len(numbers) == len(values) else values[0]


def shown(value: float | str | None) -> str:
    """A cell of the table."""
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def scenarios(text: str) -> list[str]:
    """The names in a list with commas; an unknown one is an error of the command line."""
    names = text.split(",")
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    return names


def main() -> None:
    """Run the scenarios and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=["trl"], help="measure TRL too")
    parser.add_argument("--only", type=scenarios, default=list(SCENARIOS), help="scenarios, separated by commas")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the median is shown (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    load_reward("math")
    peer = Trl() if arguments.peer else None
    results = {}
    for name in arguments.only:
        runs = [
            SCENARIOS[name](peer)
            for _ in range(1 if name in ("hostile", "hostile_raw", "overhead") else arguments.repeat)
        ]
        results[name] = {key: middle([run[key] for run in runs]) for key in runs[0]}
        table = Table(title=name, title_justify="left", show_header=False)
        for key, value in results[name].items():
            table.add_row(key, shown(value))
        Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
