"""Environments that answer the model's turns themselves: a user, a game, another system's environment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...scoring.inputs import copied
from ...scoring.jobs import Job, JobPolicy, JobResult, Jobs
from ...types import Message, ToolUse
from .contents import cleaned, is_blocks, is_messages, message_fault
from .spec import EnvironmentSpec, OnToolError
from .turns import ToolError

if TYPE_CHECKING:
    from ..chat import ToolCall
    from .dialogue import Dialogue

OFFERED = ("message", "calls", "finish_reason", "completion_ids", "context_tokens")
"""What `answer_turn` may take, by name."""
ROLES = ("user", "tool", "system")
"""Who may speak between two turns of the model."""


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
    takes_calls = getattr(instance, "tool_schemas", None) is not None
    if not callable(getattr(made, "answer_turn", None)):
        if takes_calls:
            raise UsageError(
                f"environment {made.__name__!r} has tool_schemas but no answer_turn, which answers their calls"
            )
        return None
    parameters = inspect.signature(instance.answer_turn).parameters.values()
    for one in parameters:
        if one.kind is one.POSITIONAL_ONLY or (one.name not in OFFERED and _is_required(one)):
            raise UsageError(
                f"environment {made.__name__!r}: answer_turn needs {one.name!r}; it may take, by name, "
                f"{', '.join(OFFERED)}"
            )
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    names = frozenset(OFFERED) if takes_any else frozenset(one.name for one in parameters) & frozenset(OFFERED)
    return Replies(names, takes_calls, spec.tool_policy(), spec.on_error)


def _is_required(parameter: inspect.Parameter) -> bool:
    variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not variable


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
            "calls": [replace(call, arguments=copied(call.arguments)) for call in self._calls],
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
        return _fault(self._result.value) if failure is None else f"answer_turn failed: {failure.message}"

    def answers(self) -> list[Message] | None:
        """The messages that follow the turn, None when none do; counts its calls where they are the environment's.

        Raises ToolError where a failure is to end the run.
        """
        if self.aborts is not None and self._replies.on_error == "raise":
            failure = self._result.failure
            raise ToolError(f"{self.aborts} (on_error = raise)") from (None if failure is None else failure.error)
        if self._replies.takes_calls:
            self.dialogue.uses.extend(self._use(call) for call in self._calls)
        if self._last or self.aborts is not None or self._result.value is None:
            return None
        return _messages(self._result.value)

    def _use(self, call: ToolCall) -> ToolUse:
        known = call.name in self.dialogue.tools
        return ToolUse(call.name if known else "", self._result.seconds, call.error is not None or not known)

    def _ended(self, result: JobResult) -> None:
        self._result = result
        self._done(self)


def _fault(value: Any) -> str | None:
    """What is wrong with an answer, if something is."""
    if value is None or isinstance(value, str) or is_blocks(value):
        return None
    if not is_messages(value):
        return (
            f"answer_turn gave {value!r:.60}; expected text, a list of messages or content blocks, or None when the "
            "dialogue is over"
        )
    faults = (message_fault(one, ROLES) for one in value)
    return next((f"answer_turn gave {fault}" for fault in faults if fault is not None), None)


def _messages(value: Any) -> list[Message]:
    """An answer as messages: text and content blocks are what a user says."""
    if is_messages(value):
        return list(cleaned(value))
    return [{"role": "user", "content": cleaned(value)}]
