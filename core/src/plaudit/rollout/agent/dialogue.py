"""One rollout while it is being written: the model's turns, and between them what its tools answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...types import FinishReason, Message, Rollout, Row, ToolUse
from ..media import Media, joined
from ..protocol import Generated

if TYPE_CHECKING:
    from ..chat import ToolCall, ToolChat
    from .replies import Replies
    from .tools import Tool


@dataclass(slots=True, eq=False)
class Dialogue:
    """A rollout of many turns. Its token ids only grow: nothing is ever tokenised again.

    `row`: with the prompt as the model sees it. `tools`: by name; empty = the rollout has one turn. `budget`: the most
    tokens of a completion; `context`: the most that the model sees at once, None = not known. `messages`: what was said
    since the prompt. `mask`: 1 on the model's tokens. `media`: the images of prompt and answers. `replies`: how its
    environment answers turns, if it does.
    """

    index: int
    row: Row
    chat: ToolChat
    tools: Mapping[str, Tool]
    prompt_ids: tuple[int, ...]
    budget: int
    context: int | None = None
    media: Media | None = None
    environment: Any = None
    replies: Replies | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] | None = field(default_factory=list)
    finish_reason: FinishReason = "stop"
    uses: list[ToolUse] = field(default_factory=list)
    rounds: int = 0
    turn_ids: tuple[int, ...] = ()

    @property
    def context_ids(self) -> tuple[int, ...]:
        """All tokens so far: what the next turn goes on from."""
        return (*self.prompt_ids, *self.completion_ids)

    @property
    def remaining(self) -> int:
        """How many tokens may still be added."""
        room = self.budget if self.context is None else min(self.budget, self.context - len(self.prompt_ids))
        return room - len(self.completion_ids)

    def add_turn(self, made: Generated) -> list[ToolCall]:
        """Add what the model wrote, cut to the room that there is. Returns the calls that it makes."""
        ids = made.completion_ids[: self.remaining]
        cut = len(ids) < len(made.completion_ids)
        self._extend(ids, 1, None if made.logprobs is None else made.logprobs[: len(ids)])
        self.finish_reason = "length" if cut else made.finish_reason
        self.turn_ids = tuple(ids)
        if not ids:
            return []
        message, calls = self.chat.parse(ids)
        self.messages.append(message)
        if self.finish_reason == "length":
            # A call that was cut off is not the model's mistake.
            calls = [call for call in calls if call.error is None]
        return calls if self.tools else []

    def add_answers(self, answers: Sequence[Message]) -> bool:
        """Add what was answered to the last turn, if it fits; else nothing changes, and the dialogue ends."""
        seen = self.chat.suffix(self.messages[-1], answers, self.turn_ids)
        suffix = seen.ids
        length = len(self.prompt_ids) + len(self.completion_ids) + len(suffix)
        if len(suffix) > self.remaining or (self.context is not None and length >= self.context):
            return False
        self.messages.extend(answers)
        self.media = joined(self.media, len(self.context_ids), seen.media, len(suffix))
        self._extend(suffix, 0, (0.0,) * len(suffix))
        if not self.remaining:
            self.finish_reason = "length"
        return True

    def give_up(self) -> None:
        """End it as one that no reward sees and nothing is learnt from."""
        self.finish_reason = "abort"
        if self.environment is not None:
            self.metrics["env/aborted"] = 1.0

    def rollout(self) -> Rollout:
        """The finished rollout."""
        return Rollout(
            index=self.index,
            row=self.row,
            completion=self.messages,
            completion_ids=tuple(self.completion_ids),
            prompt_ids=self.prompt_ids,
            logprobs=None if self.logprobs is None else tuple(self.logprobs),
            tool_mask=tuple(self.mask) if 0 in self.mask else None,
            finish_reason=self.finish_reason,
            environment=self.environment,
            tool_uses=tuple(self.uses) if self.tools else None,
            metrics=self.metrics,
            media=self.media,
        )

    def _extend(self, ids: Sequence[int], mark: int, logprobs: Sequence[float] | None) -> None:
        self.completion_ids.extend(ids)
        self.mask.extend([mark] * len(ids))
        if logprobs is None:
            self.logprobs = None
        elif self.logprobs is not None:
            self.logprobs.extend(logprobs)
