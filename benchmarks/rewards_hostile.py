"""Answers that freeze whoever evaluates them, for rewards.py: what a step takes then, and what is left behind."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import reward_specs
from rewards_peer import Trl
from rewards_waiting import Figures, rows_of, submit

HOSTILE_TIMEOUT_S = 5.0


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
