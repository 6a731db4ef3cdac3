"""What a scorer keeps of one reward over all steps: its policy, limits, breaker, weight and executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plaudit.scoring.admission import Admission
from plaudit.scoring.breaker import Breaker
from plaudit.scoring.cache import ScoreCache
from plaudit.scoring.clock import Clock
from plaudit.scoring.executors.attempt import Executor
from plaudit.scoring.policy import Policy
from plaudit.scoring.schedules import Schedule, as_schedule
from plaudit.scoring.spec import RewardSpec


class RewardRuntime:
    """One reward at run time."""

    def __init__(
        self,
        spec: RewardSpec,
        policy: Policy,
        *,
        executor: Executor,
        admission: Admission,
        clock: Clock,
        cache: ScoreCache | None = None,
        identity: str = "",
    ) -> None:
        self.spec = spec
        self.policy = policy
        self.executor = executor
        self.schedule: Schedule = as_schedule(spec.weight)
        self.breaker = Breaker(spec.name, failures=policy.breaker_failures, cooldown_s=policy.breaker_cooldown_s)
        self.cache = cache if policy.cache else None
        self.identity = identity
        self.admission = admission
        self.queue = admission.queue(limit=policy.max_concurrency, requests_per_s=policy.requests_per_s)
        self._clock = clock

    @property
    def name(self) -> str:
        """The reward's name in the run."""
        return self.spec.name

    def later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Run `callback` after a delay."""
        self._clock.call_later(delay_s, callback)

    def state_dict(self) -> dict[str, Any]:
        """Breaker and adaptive weight."""
        return {"breaker": self.breaker.state_dict(), "weight": getattr(self.schedule, "weight", None)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict`."""
        self.breaker.load_state_dict(state["breaker"])
        if state["weight"] is not None and hasattr(self.schedule, "weight"):
            self.schedule.weight = state["weight"]
