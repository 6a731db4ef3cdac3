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
import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from plaudit import load_reward, reward, verifier
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.session import ScoringSession
from plaudit.scoring.spec import RewardSpec, environment_spec, reward_specs
from plaudit.types import Rollout, Row
from rewards_peer import Trl
from rich.console import Console
from rich.table import Table

GENERATION_S = 2.0
HOSTILE_TIMEOUT_S = 5.0
Figures = dict[str, float | str | None]


def rows_of(count: int) -> list[Row]:
    """Rows with a prompt and an answer."""
    return [Row(f"What is {i}+{i}?", {"answer": str(2 * i), "solution": str(2 * i)}) for i in range(count)]


def submit(session: ScoringSession, completions: Sequence[str], environments: Sequence[Any] | None = None) -> None:
    """Submit all rollouts at once."""
    rows = rows_of(len(completions))
    for i, completion in enumerate(completions):
        session.submit(
            Rollout(i, rows[i], completion, (1, 2, 3), environment=environments[i] if environments else None)
        )


def timed(specs: Sequence[RewardSpec], completions: Sequence[str], environments: Sequence[Any] | None = None) -> float:
    """Wall seconds from the first submission to the table; the scorer is warm."""
    with Scorer(specs, max_unscored_share=None) as scorer:
        session = scorer.open(rows_of(len(completions)), num_generations=len(completions))
        started = time.perf_counter()
        submit(session, completions, environments)
        session.result()
        return time.perf_counter() - started


def sync_reward(completions: Sequence[str], **columns: Any) -> list[float]:
    """0.4 s, blocking."""
    time.sleep(0.4)
    return [1.0] * len(completions)


async def async_reward(completions: Sequence[str], **columns: Any) -> list[float]:
    """0.4 s, awaiting."""
    await asyncio.sleep(0.4)
    return [1.0] * len(completions)


class Environment:
    """An environment whose own reward takes 0.1 s."""

    async def get_reward(self) -> float:
        """As a judge would: slow and awaited."""
        await asyncio.sleep(0.1)
        return 1.0


@reward(granularity="rollout", max_concurrency=128)
def io_reward(completions: Sequence[str]) -> list[float]:
    """1 s of input and output, blocking, for one rollout."""
    time.sleep(1.0)
    return [1.0]


def four(peer: Trl | None) -> Figures:
    """Two sync and two async rewards."""
    functions = [sync_reward, sync_reward, async_reward, async_reward]
    completions = [str(i) for i in range(8)]
    theirs = peer.rewards(functions, completions) if peer else None
    return {"plaudit_s": timed(reward_specs(functions), completions), "trl_s": theirs, "bar_s": 0.45}


def environments(peer: Trl | None) -> Figures:
    """Async get_reward on 8 rollouts."""
    made = [Environment() for _ in range(8)]
    theirs = peer.environment_rewards(made) if peer else None
    return {"plaudit_s": timed([environment_spec(Environment)], ["x"] * 8, made), "trl_s": theirs, "bar_s": 0.15}


def generate(session: ScoringSession, count: int) -> None:
    """Rollouts that finish evenly over the generation's 2 s."""
    rows, started = rows_of(count), time.perf_counter()
    for i in range(count):
        time.sleep(max(started + GENERATION_S * (i + 1) / count - time.perf_counter(), 0.0))
        session.submit(Rollout(i, rows[i], str(i)))


def beside(peer: Trl | None) -> Figures:
    """Scoring that starts with the first finished rollout. TRL: generation first, then the reward as async I/O."""
    with Scorer(reward_specs(io_reward)) as scorer:
        session = scorer.open(rows_of(64), num_generations=8)
        started = time.perf_counter()
        generate(session, 64)
        session.result()
        ours = time.perf_counter() - started
    theirs = None
    if peer is not None:
        started = time.perf_counter()
        time.sleep(GENERATION_S)
        peer.rewards([io_all], [str(i) for i in range(64)])
        theirs = time.perf_counter() - started
    return {"plaudit_s": ours, "trl_s": theirs, "bar_s": 3.1}


async def io_all(completions: Sequence[str], **columns: Any) -> list[float]:
    """The same I/O over a batch, as an async function that awaits all rollouts together."""
    await asyncio.gather(*(asyncio.sleep(1.0) for _ in completions))
    return [1.0] * len(completions)


def lookahead(peer: Trl | None) -> Figures:
    """Seconds a step when the next batch generates while the last rewards of this one arrive; TRL cannot."""
    steps = 4
    with Scorer(reward_specs(io_reward)) as scorer:
        open_session = scorer.open(rows_of(64), num_generations=8)
        generate(open_session, 64)
        started = time.perf_counter()
        for step in range(1, steps + 1):
            following = scorer.open(rows_of(64), num_generations=8, step=step)
            generate(following, 64)
            open_session.result()
            open_session = following
        ours = (time.perf_counter() - started) / steps
        open_session.result()
    return {"plaudit_s": ours, "trl_s": None, "bar_s": GENERATION_S * 1.15}


def overhead(peer: Trl | None, *, repeat: int = 15) -> Figures:
    """Microseconds a rollout of a no-op reward beyond the bare function; wall and CPU, the best of `repeat`."""
    count = 1024

    def batch(completions: Sequence[str]) -> list[float]:
        return [0.0] * len(completions)

    each = reward(granularity="rollout")(lambda completions: [0.0])
    judged = verifier(lambda completion, reference: 0.0)

    async def awaited(completions: Sequence[str]) -> list[float]:
        return [0.0]

    variants = {
        "batch": (batch, lambda: batch(["x"] * count)),
        "rollout": (each, lambda: [each(["x"]) for _ in range(count)]),
        "verifier": (judged, lambda: [judged("x", "y") for _ in range(count)]),
        "async_rollout": (reward(granularity="rollout")(awaited), lambda: None),
    }
    figures: Figures = {"bar_us": 30.0}
    rows = rows_of(count)
    rollouts = [Rollout(i, row, f"completion {i}", (1, 2, 3)) for i, row in enumerate(rows)]
    for name, (function, bare) in variants.items():
        with Scorer(reward_specs(function)) as scorer:
            wall, cpu = zip(*(_pass(scorer, rows, rollouts, bare) for _ in range(repeat)), strict=True)
        figures[f"{name}_wall_us"] = min(wall) / count * 1e6
        figures[f"{name}_cpu_us"] = min(cpu) / count * 1e6
    return figures


def _pass(scorer: Scorer, rows: list[Row], rollouts: list[Rollout], bare: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of one batch beyond those of the bare calls."""
    wall, cpu = time.perf_counter(), time.process_time()
    bare()
    bare_wall, bare_cpu = time.perf_counter() - wall, time.process_time() - cpu
    wall, cpu = time.perf_counter(), time.process_time()
    session = scorer.open(rows, num_generations=8)
    for rollout in rollouts:
        session.submit(rollout)
    session.result()
    return time.perf_counter() - wall - bare_wall, time.process_time() - cpu - bare_cpu


def hostile(peer: Trl | None) -> Figures:
    """Answers that freeze a process, given to plaudit-math."""
    return answers_that_freeze("math", peer)


def hostile_raw(peer: Trl | None) -> Figures:
    """The same, given to a verifier that tries to evaluate them; it was TRL's turn in `hostile`."""
    return answers_that_freeze(f"{Path(__file__).with_name('rewards_raw_math.py')}:raw_math", None)


def answers_that_freeze(reference: str, peer: Trl | None) -> Figures:
    """The seconds of the step, and what is left after it."""
    import psutil

    answers = [r"\boxed{9^{9^{9^{9}}}}", r"\boxed{(10^7)!}", *(rf"\boxed{{{2 * i}}}" for i in range(2, 8))]
    spec = replace(reward_specs(reference)[0], timeout_s=HOSTILE_TIMEOUT_S)
    threads = threading.active_count()
    with Scorer([spec], max_unscored_share=None) as scorer:
        first = scorer.open(rows_of(1), num_generations=1)  # the step before: the workers have started
        submit(first, [r"\boxed{0}"])
        first.result()
        watch = Watch()
        started = time.perf_counter()
        session = scorer.open(rows_of(8), num_generations=8)
        submit(session, answers)
        table = session.result()
        ours = time.perf_counter() - started
        peak_mb = watch.stop()
    left = [process for process in psutil.Process().children(recursive=True) if process.status() != "zombie"]
    return {
        "plaudit_s": ours,
        "trl_s": peer.hostile_answers(answers) if peer else None,
        "bar_s": HOSTILE_TIMEOUT_S + 1.0,
        "scores": str([row[0] for row in table.scores]),
        "peak_mb_of_workers": peak_mb,
        "threads_left": float(threading.active_count() - threads),
        "processes_left": float(len(left)),
    }


class Watch:
    """The most memory that the child processes held together."""

    def __init__(self) -> None:
        self._peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def stop(self) -> float:
        """End; returns MB."""
        self._ended.set()
        self._thread.join()
        return self._peak / 2**20

    def _look(self) -> None:
        import psutil

        while not self._ended.wait(0.1):
            total = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            self._peak = max(self._peak, total)


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


def main() -> None:
    """Run the scenarios and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=["trl"], help="measure TRL too")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="scenarios, separated by commas")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the median is shown (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    load_reward("math")
    peer = Trl() if arguments.peer else None
    results = {}
    for name in arguments.only.split(","):
        runs = [
            SCENARIOS[name](peer)
            for _ in range(1 if name in ("hostile", "hostile_raw", "overhead") else arguments.repeat)
        ]
        results[name] = {key: middle([run[key] for run in runs]) for key in runs[0]}
        table = Table(title=name, title_justify="left")
        for key in results[name]:
            table.add_column(key)
        table.add_row(*(shown(value) for value in results[name].values()))
        Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
