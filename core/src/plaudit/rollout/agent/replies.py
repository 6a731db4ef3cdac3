"""Environments that answer the model's turns themselves: a user, a game, another system's environment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...scoring.inputs import copied
from ...scoring.jobs import Job, JobPolicy, JobResult, Jobs
from ...types import Message, ToolUse
from .spec import EnvironmentSpec, OnToolError
from .turns import ToolError

if TYPE_CHECKING:
    from ..chat import ToolCall
    from .dialogue import Dialogue

OFFERED = ("message", "calls", "finish_reason", "completion_ids", "context_tokens")
"""What `answer_turn` may take, by name."""


@dataclass(frozen=True, slots=True)
class Replies:
    """`names`: the arguments of `answer_turn`. `takes_calls`: its tools are schemas, whose calls it answers itself."""

    names: frozenset[str]
    takes_calls: bool
    policy: JobPolicy
    on_error: OnToolError


def replies_of(instance: Any, spec: EnvironmentSpec) -> Replies | None:
    """How an environment answers turns: by a method `answer_turn`, None without one.

    Raises UsageError on arguments that it cannot be given, and on `tool_schemas` without the method.
    """
    made = type(instance)
    takes_calls = inspect.getattr_static(instance, "tool_schemas", None) is not None
    method = getattr(made, "answer_turn", None)
    if not callable(method):
        if takes_calls:
            raise UsageError(
                f"environment {made.__name__!r} has tool_schemas but no answer_turn, which answers their calls"
            )
        return None
    parameters = list(inspect.signature(method).parameters.values())[1:]
    unknown = [p.name for p in parameters if p.name not in OFFERED and p.default is p.empty]
    if unknown:
        raise UsageError(
            f"environment {made.__name__!r}: answer_turn needs {unknown[0]!r}; it may take {', '.join(OFFERED)}"
        )
    names = frozenset(p.name for p in parameters if p.name in OFFERED)
    return Replies(names, takes_calls, spec.tool_policy(), spec.on_error)


class Reply:
    """The environment's answer to a dialogue's last turn; stands where a `Turn` does.

    `last`: the turn is told, but what is answered is not gone on from.
    """

    def __init__(
        self,
        dialogue: Dialogue,
        calls: Sequence[ToolCall],
        replies: Replies,
        jobs: Jobs,
        done: Callable[[Reply], None],
        *,
        last: bool,
    ) -> None:
        self.dialogue = dialogue
        self._calls = calls
        self._replies = replies
        self._jobs = jobs
        self._done = done
        self._last = last
        self._job: Job | None = None
        self._result = JobResult(None, None, 0.0)

    def start(self) -> None:
        """Ask the environment."""
        dialogue = self.dialogue
        spoke = bool(dialogue.turn_ids)
        offered = {
            "message": copied(dialogue.messages[-1]) if spoke else {"role": "assistant", "content": ""},
            "calls": list(self._calls),
            "finish_reason": dialogue.finish_reason,
            "completion_ids": dialogue.turn_ids,
            "context_tokens": len(dialogue.context_ids) - len(dialogue.turn_ids),
        }
        self._last = self._last or not spoke
        arguments = {name: offered[name] for name in self._replies.names}
        self._job = Job(dialogue.environment.answer_turn, arguments, "answer_turn", self._replies.policy, self._ended)
        self._jobs.submit(self._job)

    def cancel(self) -> None:
        """Stop; `done` is not called any more."""
        if self._job is not None:
            self._jobs.cancel(self._job)

    @property
    def broken(self) -> bool:
        """Whether the call may still be at work on the environment."""
        return self._result.failure is not None and self._result.failure.kind in ("timeout", "lost")

    @property
    def aborts(self) -> str | None:
        """Why the dialogue is to be given up."""
        failure = self._result.failure
        if failure is not None:
            return f"answer_turn failed: {failure.message}"
        return None if self._result.value is None else _fault(self._result.value)

    def answers(self) -> list[Message] | None:
        """The messages that follow the turn, None when none do. Raises ToolError where a failure is to end the run."""
        failure = self._result.failure
        if failure is not None and self._replies.on_error == "raise":
            raise ToolError(f"answer_turn failed: {failure.message} (on_error = raise)") from failure.error
        if self._replies.takes_calls:
            names = self.dialogue.tools
            uses = [ToolUse(one.name if one.name in names else "", self._result.seconds, one.error is not None or
                            one.name not in names) for one in self._calls]  # fmt: skip
            self.dialogue.uses.extend(uses)
        value = self._result.value
        if isinstance(value, str):
            value = [{"role": "user", "content": value}]
        return None if self._last else value

    def _ended(self, result: JobResult) -> None:
        self._result = result
        self._done(self)


def _fault(value: Any) -> str | None:
    """What is wrong with an answer, if something is."""
    if isinstance(value, str):
        return None
    if isinstance(value, list) and value and all(isinstance(one, Mapping) and "role" in one for one in value):
        return None
    return f"answer_turn gave {value!r:.60}; expected text, a list of messages, or None when the dialogue is over"
