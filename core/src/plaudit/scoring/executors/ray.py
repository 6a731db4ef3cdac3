"""Rewards on a Ray cluster: each call is a remote task that Ray places, and cancels by force at its timeout."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

from plaudit.errors import UsageError
from plaudit.scoring.executors.attempt import Attempt
from plaudit.scoring.executors.loop import LoopExecutor
from plaudit.scoring.outcome import Failure, Outcome, described, perform
from plaudit.scoring.policy import Policy
from plaudit.scoring.spec import RewardSpec

_loaded: dict[bytes, Any] = {}


def run_task(reward: bytes, request: bytes) -> bytes:
    """Run one request where Ray put it; a worker keeps the rewards that it has loaded."""
    if reward not in _loaded:
        _loaded[reward] = pickle.loads(reward)
    loaded = _loaded[reward]
    outcome = perform(loaded, pickle.loads(request), loaded.component.declaration.retry_on)
    if outcome.failure is not None:
        outcome.failure.error = None
    return pickle.dumps(outcome)


class RayExecutor:
    """Runs attempts as Ray tasks. The cluster is the one that RAY_ADDRESS names, else one that is started here.

    Every node needs the same plugins installed. Raises UsageError when Ray is not installed.
    """

    def __init__(self, spec: RewardSpec, policy: Policy, *, loop: LoopExecutor) -> None:
        try:
            import ray
        except ImportError:
            raise UsageError(f"reward '{spec.name}' has executor = 'ray': pip install 'plaudit[ray]'") from None
        self._ray = ray
        self._loop = loop
        self._references: dict[Attempt, Any] = {}
        self._started_here = not ray.is_initialized()
        if self._started_here:
            ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        memory = policy.memory_mb * 2**20
        self._task = ray.remote(max_retries=0, memory=memory)(run_task)
        self._reward = pickle.dumps(spec.reward)

    def submit(self, attempt: Attempt) -> None:
        """Hand an attempt to the cluster."""
        asyncio.run_coroutine_threadsafe(self._run(attempt), self._loop.loop)

    def cancel(self, attempt: Attempt) -> None:
        """Cancel its task by force."""
        attempt.cancelled = True
        reference = self._references.pop(attempt, None)
        if reference is not None:
            self._ray.cancel(reference, force=True)

    def close(self) -> list[str]:
        """Cancel what runs; ends the cluster if it was started here."""
        for attempt in tuple(self._references):
            self.cancel(attempt)
        if self._started_here and self._ray.is_initialized():
            self._ray.shutdown()
        return []

    async def _run(self, attempt: Attempt) -> None:
        try:
            request = pickle.dumps(attempt.request())
        except BaseException as error:
            attempt.settle(
                Outcome(failure=Failure("unpicklable", f"its input cannot be sent to Ray: {described(error)}"))
            )
            return
        attempt.begin()
        reference = self._references[attempt] = self._task.remote(self._reward, request)
        try:
            data = await asyncio.wait_for(asyncio.wrap_future(reference.future()), attempt.timeout_s)
            attempt.settle(pickle.loads(data))
        except TimeoutError:
            attempt.timed_out()
            self.cancel(attempt)
        except Exception as error:
            attempt.settle(Outcome(failure=Failure("killed", f"its Ray task ended: {described(error)}")))
        finally:
            self._references.pop(attempt, None)
