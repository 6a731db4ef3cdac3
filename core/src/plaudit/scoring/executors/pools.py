"""Every executor that a scorer has started, so that one call ends them all."""

from __future__ import annotations

from plaudit.scoring.clock import Clock
from plaudit.scoring.executors.attempt import Executor
from plaudit.scoring.executors.loop import LoopExecutor
from plaudit.scoring.executors.threads import ThreadPool
from plaudit.scoring.policy import Policy
from plaudit.scoring.spec import RewardSpec


class Pools:
    """One loop for all; threads and processes apart for each reward, so that one that hangs cannot starve another."""

    def __init__(self, clock: Clock, *, processes: int | None = None) -> None:
        self.loop = LoopExecutor(clock)
        self._clock = clock
        self._processes = processes
        self._all: list[Executor] = [self.loop]

    def executor(self, spec: RewardSpec, policy: Policy) -> Executor:
        """The executor for one reward."""
        if policy.executor == "loop":
            return self.loop
        made: Executor
        if policy.executor == "process":
            from plaudit.scoring.executors.processes import ProcessPool

            made = ProcessPool(self._clock, spec, policy, processes=self._processes)
        elif policy.executor == "ray":
            from plaudit.scoring.executors.ray import RayExecutor

            made = RayExecutor(spec, policy, loop=self.loop)
        else:
            made = ThreadPool(self._clock, name=spec.name, limit=policy.max_concurrency)
        self._all.append(made)
        return made

    def threads(self, name: str, limit: int) -> ThreadPool:
        """Threads for something that is not a reward."""
        made = ThreadPool(self._clock, name=name, limit=limit)
        self._all.append(made)
        return made

    def close(self) -> list[str]:
        """Close all; the names of threads that could not be ended."""
        return [name for executor in self._all for name in executor.close()]
