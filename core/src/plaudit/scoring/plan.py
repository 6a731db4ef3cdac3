"""One reward in one session: its units of work (a rollout, a group, the batch) and what each still waits for."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from plaudit.scoring.gates import matches, passes
from plaudit.scoring.inputs import Inputs, portable_state
from plaudit.scoring.normalise import Value, score_of
from plaudit.scoring.outcome import Outcome, Request
from plaudit.scoring.runtime import RewardRuntime
from plaudit.scoring.stats import Stats
from plaudit.types import Rollout


class RewardPlan:
    """`missing[u]` counts what unit u waits for: its rollouts, and with `after` the other reward's scores of them."""

    def __init__(
        self,
        runtime: RewardRuntime,
        *,
        columns: frozenset[str],
        count: int,
        group_size: int,
        after: tuple[int, float | None] | None,
        reserved: frozenset[str],
    ) -> None:
        self.runtime = runtime
        self.after = after
        self.stats = Stats()
        self.size = {"rollout": 1, "group": group_size, "batch": max(count, 1)}[runtime.policy.granularity]
        units = -(-count // self.size)
        needs = 1 if after is None else 2
        self.missing = [needs * min(self.size, count - unit * self.size) for unit in range(units)]
        self.values: list[Value] = [None] * count
        self.zeroed: set[int] = set()
        self.work: dict[bytes, list[int]] = {}
        self.finished_work: dict[bytes, Outcome] = {}
        self.logged: dict[str, dict[int, Any]] = {}
        self.metrics: list[tuple[str, float]] = []
        component = runtime.spec.reward.component
        self.keyed = self.size == 1 and runtime.policy.deterministic and "environments" not in component.signature.names
        self.runs_everywhere = not runtime.spec.when and runtime.spec.applies is None and after is None
        self._inputs = Inputs(runtime.spec.reward, columns)
        self._judges = component.kind == "verifier"
        self._travels = runtime.policy.executor in ("process", "ray")
        self._reserved = reserved

    def arrived(self, index: int) -> int | None:
        """A rollout, or the score it waits for, is there: the unit that is now ready, if any. Call under the lock."""
        unit = index // self.size
        self.missing[unit] -= 1
        return unit if self.missing[unit] == 0 else None

    def members(self, unit: int) -> range:
        """The rollouts of a unit."""
        return range(unit * self.size, min((unit + 1) * self.size, len(self.values)))

    def runs_on(self, rollout: Rollout, before: RewardPlan | None) -> bool:
        """Whether the gates let this reward see a rollout; `before` is the plan of the reward it waits for.

        No reward sees a rollout that was given up.
        """
        spec = self.runtime.spec
        if rollout.finish_reason == "abort":
            return False
        if not matches(spec.when, rollout.row.columns) or (spec.applies is not None and not spec.applies(rollout)):
            return False
        return before is None or self.after is None or passes(score_of(before.values[rollout.index]), self.after[1])

    def request(self, rollouts: Sequence[Rollout], trainer_state: Any) -> Request:
        """The request of one call, built on the thread that runs it. All values are copies."""
        name = self.runtime.spec.name
        if self._judges:
            return Request(name, 1, completion=rollouts[0].completion, row=self._inputs.row(rollouts[0]))
        if self._travels:
            trainer_state = portable_state(trainer_state)
        arguments = self._inputs.arguments(rollouts, trainer_state)
        return Request(name, len(rollouts), arguments, logging=self._inputs.logging, reserved=self._reserved)

    def join(self, key: bytes, index: int) -> Outcome | list[int] | None:
        """Have rollout `index` share equal work: the outcome of what is done, or those that wait for what is under way.

        None = it is the first, and must call. Call under the lock.
        """
        outcome, twins = self.finished_work.get(key), self.work.get(key)
        if twins is None:
            self.work[key] = [index]
            return None
        self.stats.shared += 1
        if outcome is None:
            twins.append(index)
        return outcome or twins

    def keep_logged(self, indices: Sequence[int], outcome: Outcome) -> None:
        """Keep what a call over the rollouts `indices` logged. Call under the lock."""
        for column, values in outcome.columns.items():
            self.logged.setdefault(column, {}).update(zip(indices, values, strict=True))
        self.metrics.extend(outcome.metrics)

    def cache_key(self, rollout: Rollout) -> str | None:
        """The key on disk: fingerprint, options and all inputs. None = not cached."""
        cache = self.runtime.cache
        return (
            None
            if cache is None or not self.keyed
            else cache.key(self.runtime.identity, self._inputs.identity(rollout))
        )

    def work_key(self, rollout: Rollout) -> bytes | None:
        """What a deterministic reward's value depends on; equal keys mean equal work. None = not known."""
        try:
            return pickle.dumps(self._inputs.identity(rollout), protocol=5)
        except Exception:
            return None
