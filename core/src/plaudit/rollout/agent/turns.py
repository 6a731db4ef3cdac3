"""The calls of one turn: run in the model's order where they share an environment, beside each other where not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...errors import PlauditError
from ...scoring.inputs import copied
from ...scoring.jobs import Job, JobResult, Jobs
from ...scoring.outcome import Failure
from ...types import Message, ToolUse
from .contents import cleaned, readable

if TYPE_CHECKING:
    from ..chat import ToolCall
    from .dialogue import Dialogue
    from .tools import Tool


class ToolError(PlauditError):
    """A tool failed whose `on_error` is "raise". Its own exception, if any, is `__cause__`."""


class Turn:
    """The calls of a dialogue's last turn. `done` is called once, on any thread, when all have their results.

    `broken`: a call timed out or its loop was lost, so what it does to the environment may not be over yet.
    """

    def __init__(self, dialogue: Dialogue, calls: Sequence[ToolCall], jobs: Jobs, done: Callable[[Turn], None]) -> None:
        self.dialogue = dialogue
        self.calls = calls
        self.results: list[JobResult] = [JobResult(None, None, 0.0)] * len(calls)
        self._tools = [None if call.error else dialogue.tools.get(call.name) for call in calls]
        self._jobs = jobs
        self._done = done
        self._left = len(calls)
        self._lock = threading.Lock()
        self._running: list[Job] = []
        self._queue = [place for place, tool in enumerate(self._tools) if tool is not None and tool.function is None]

    def start(self) -> None:
        """Start what can run now."""
        alone = [place for place, tool in enumerate(self._tools) if tool is None or tool.function is not None]
        for place in alone:
            self._run(place)
        self._next_of_environment()

    def cancel(self) -> None:
        """Stop; `done` is not called any more."""
        with self._lock:
            self._left, self._queue = -1, []
        for job in tuple(self._running):
            self._jobs.cancel(job)

    @property
    def broken(self) -> bool:
        """Whether a call may still be at work on the environment."""
        return any(result.failure is not None and result.failure.kind in ("timeout", "lost") for result in self.results)

    def answers(self) -> list[Message]:
        """The messages of the tools, in the order of the calls; counts them in the dialogue.

        Raises ToolError where a failed tool is to end the run.
        """
        return [self._answer(*each) for each in zip(self.calls, self._tools, self.results, strict=True)]

    @property
    def aborts(self) -> str | None:
        """Why the dialogue is to be given up, if a failed tool says so."""
        for call, tool, result in zip(self.calls, self._tools, self.results, strict=True):
            if tool is not None and result.failure is not None and tool.on_error == "abort":
                return f"tool {call.name!r}: {result.failure.message}"
        return None

    def _answer(self, call: ToolCall, tool: Tool | None, result: JobResult) -> Message:
        failure = result.failure
        self.dialogue.uses.append(ToolUse(tool.name if tool else "", result.seconds, failure is not None))
        if failure is not None and tool is not None and tool.on_error == "raise":
            raise ToolError(f"tool {call.name!r} failed: {failure.message} (on_error = raise)") from failure.error
        content = result.value if failure is None else cleaned(str({"error": failure_text(failure)}))
        message = {"role": "tool", "name": call.name or "unknown", "content": content}
        return {**message, "tool_call_id": call.id} if call.id else message

    def _run(self, place: int) -> None:
        call, tool = self.calls[place], self._tools[place]
        function = None if tool is None else tool.bound(self.dialogue.environment)
        if tool is None or function is None:
            self._ended(place, JobResult(None, Failure("call", self._no_tool(call)), 0.0))
            return
        job = Job(
            function=function,
            arguments=copied(call.arguments),
            label=f"tool {tool.name!r}",
            policy=tool.policy,
            then=partial(self._ended, place),
        )
        self._running.append(job)
        self._jobs.submit(job)

    def _no_tool(self, call: ToolCall) -> str:
        return call.error or f"there is no tool {call.name!r}; there are: {', '.join(self.dialogue.tools)}"

    def _ended(self, place: int, result: JobResult) -> None:
        tool = self._tools[place]
        self.results[place] = readable(result)
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._done(self)
        elif tool is not None and tool.function is None:
            self._next_of_environment()

    def _next_of_environment(self) -> None:
        """Methods of one environment run one after another: each sees what the one before did."""
        with self._lock:
            place = self._queue.pop(0) if self._queue else None
        if place is not None:
            self._run(place)


def failure_text(failure: Failure) -> str:
    """What the model reads of a failure: the exception's own words."""
    try:
        return str(failure.error) or failure.message if failure.error is not None else failure.message
    except Exception:
        return failure.message
