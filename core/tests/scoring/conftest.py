"""Fixtures: score a batch in one call, and prove that a scorer leaves no thread and no process behind."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import RewardSpec, reward_specs
from plaudit.scoring.table import ScoreTable
from plaudit.types import Rollout, Row

# Helper modules of these tests lie beside them, which pytest's importlib mode does not look at.
sys.path.insert(0, str(Path(__file__).parent))
HOSTILE = Path(__file__).parent / "data" / "hostile.py"
Score = Callable[..., ScoreTable]


def make_rows(count: int, columns: dict[str, Sequence[Any]] | None = None) -> list[Row]:
    """Rows with `count` values a column; without columns, an answer equal to the row's number."""
    given = columns if columns is not None else {"answer": [str(i) for i in range(count)]}
    return [Row(f"prompt {i}", {name: values[i] for name, values in given.items()}) for i in range(count)]


@pytest.fixture
def hostile() -> Callable[[str], str]:
    """The reference of a function in data/hostile.py, which a worker process can load."""
    return lambda name: f"{HOSTILE}:{name}"


@pytest.fixture
def score() -> Score:
    """`score(rewards, completions, …) -> ScoreTable` with a scorer of its own that is closed afterwards."""

    def run(
        rewards: Any,
        completions: Sequence[Any],
        *,
        columns: dict[str, Sequence[Any]] | None = None,
        num_generations: int | None = None,
        weights: Sequence[Any] | None = None,
        step: int = 0,
        mode: Any = "train",
        trainer_state: Any = None,
        environments: Sequence[Any] | None = None,
        **scorer: Any,
    ) -> ScoreTable:
        count = len(completions)
        rows = make_rows(count, columns)
        specs = rewards if _are_specs(rewards) else reward_specs(rewards, weights)
        scorer.setdefault("max_unscored_share", None)
        with Scorer(specs, **scorer) as made:
            session = made.open(
                rows, num_generations=num_generations or count, trainer_state=trainer_state, mode=mode, step=step
            )
            for i, completion in enumerate(completions):
                environment = environments[i] if environments else None
                session.submit(Rollout(i, rows[i], completion, (i, i + 1), environment=environment))
            return session.result()

    return run


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """After the test, the threads are those from before and no child process lives."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < until:
        time.sleep(0.02)
    assert not left
    while (children := worker_processes()) and time.monotonic() < until:
        time.sleep(0.02)
    assert not children


def worker_processes() -> list[int]:
    """Pids of living worker processes that descend from this one."""
    import psutil

    alive = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE and any(
                "executors.worker" in word for word in process.cmdline()
            ):
                alive.append(process.pid)
        except psutil.Error:
            continue
    return alive


def _are_specs(rewards: Any) -> bool:
    return isinstance(rewards, list) and bool(rewards) and all(isinstance(one, RewardSpec) for one in rewards)
