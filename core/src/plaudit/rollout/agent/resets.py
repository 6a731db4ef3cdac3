"""The beginning of rollouts: an instance for each, made or taken from the pool, and its first observation."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import PlauditError
from ...scoring.inputs import copied
from ...scoring.jobs import Job, JobResult, Jobs
from ...types import Message
from .contents import cleaned, is_blocks, is_messages, message_fault
from .kinds import EnvironmentKind
from .pool import EnvironmentPool


class ResetError(PlauditError):
    """A reset failed whose environment says on_error = "raise". Its own exception, if any, is `__cause__`."""


@dataclass(slots=True, eq=False)
class Start:
    """One rollout's beginning: what goes in, and what came out. `failure`: why there is no observation."""

    kind: EnvironmentKind
    columns: Mapping[str, Any]
    seed: int
    environment: Any = None
    observation: str | list[Any] | None = None
    failure: str | None = None
    seconds: float = 0.0

    def check(self) -> None:
        """Raise ResetError where a failure is to end the run."""
        if self.failure is not None and self.kind.spec.on_error == "raise":
            raise ResetError(f"{self.kind.label}: {self.failure} (on_error = raise)")


def begin_all(starts: Sequence[Start], pool: EnvironmentPool, jobs: Jobs, beside: Callable[[], None]) -> None:
    """Reset all at once and fill each in; `beside` runs on this thread meanwhile.

    An instance whose reset failed is closed and not used again. Raises ResetError where that is to end the run.
    """
    ended: queue.SimpleQueue[Start] = queue.SimpleQueue()
    running = [_Beginning(start, pool, jobs, ended) for start in starts]
    try:
        for beginning in running:
            beginning.start()
        beside()
        for _ in starts:
            ended.get()
    except BaseException:
        for beginning in running:
            beginning.cancel()
        raise
    for start in starts:
        start.check()


class _Beginning:
    """Makes an instance where the pool has none, then resets it."""

    def __init__(self, start: Start, pool: EnvironmentPool, jobs: Jobs, ended: queue.SimpleQueue[Start]) -> None:
        self._start = start
        self._pool = pool
        self._jobs = jobs
        self._ended = ended
        self._job: Job | None = None

    def start(self) -> None:
        found = self._pool.take(self._start.kind)
        if found is not None:
            self._reset(found)
        else:
            self._submit(self._start.kind.spec.factory, {}, "__init__", self._made)

    def cancel(self) -> None:
        if self._job is not None:
            self._jobs.cancel(self._job)

    def _made(self, result: JobResult) -> None:
        self._start.seconds += result.seconds
        if result.failure is not None:
            self._fail(f"__init__ failed: {result.failure.message}")
            return
        self._pool.add(self._start.kind, result.value)
        self._reset(result.value)

    def _reset(self, instance: Any) -> None:
        start = self._start
        start.environment = instance
        arguments = start.kind.reset_arguments(copied(dict(start.columns)), start.seed)
        reset = getattr(instance, "reset", None)
        if reset is None:
            self._fail(f"the factory made a {type(instance).__name__}, which has no reset")
        else:
            self._submit(reset, arguments, "reset", self._was_reset)

    def _was_reset(self, result: JobResult) -> None:
        self._start.seconds += result.seconds
        observation = result.value
        if result.failure is not None:
            self._fail(f"reset failed: {result.failure.message}")
        elif (fault := observation_fault(observation)) is not None:
            self._fail(fault)
        else:
            self._start.observation = cleaned(observation)
            self._ended.put(self._start)

    def _fail(self, message: str) -> None:
        start = self._start
        start.failure = message
        if start.environment is not None:
            self._pool.give_back(start.environment, broken=True)
            start.environment = None
        self._ended.put(start)

    def _submit(self, function: Any, arguments: dict[str, Any], what: str, then: Callable[[JobResult], None]) -> None:
        kind = self._start.kind
        self._job = Job(function, arguments, f"{what} of {kind.label}", kind.spec.reset_policy(), then)
        self._jobs.submit(self._job)


def observation_fault(observation: Any) -> str | None:
    """What is wrong with what a reset gave, if something is."""
    if observation is None or isinstance(observation, str) or observation == [] or is_blocks(observation):
        return None
    if is_messages(observation):
        faults = (message_fault(one) for one in observation)
        return next((f"reset gave {fault}" for fault in faults if fault is not None), None)
    kind = "list with other things" if isinstance(observation, list) else type(observation).__name__
    return f"reset gave a {kind}; expected text, messages, content blocks or None"


def observed(prompt: list[Message], observation: str | list[Any] | None) -> list[Message]:
    """The prompt with an observation: text or content blocks at the end of its last message, messages after it.

    An empty last message, as a row without a prompt has, gives way to messages.
    """
    if not observation:
        return prompt
    *before, last = prompt
    if is_messages(observation):
        return [*before, *([last] if last["content"] else []), *observation]
    content = last["content"]
    if isinstance(observation, list) and isinstance(content, str):
        content = _blocks(content)
    elif isinstance(observation, str) and isinstance(content, list):
        observation = _blocks(observation)
    return [*before, {**last, "content": content + observation}]


def _blocks(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []
