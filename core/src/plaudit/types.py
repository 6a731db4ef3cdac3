"""The records that flow through a run. Plain frozen dataclasses: no torch, nothing to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Message = dict[str, Any]
Text = str | list[Message]
"""A prompt or completion: a string, or chat messages when conversational."""

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a dataset: its prompt, and every other column by name."""

    prompt: Text
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool: which (empty = no such tool), how long it took, and whether it failed."""

    name: str
    latency_s: float
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt at a row.

    `index` is its place in the generation batch (0 ≤ index < N); the G rollouts of a group are consecutive.
    `logprobs` are the sampler's, in nats, one a completion token; `candidates` the ids that each token was drawn from,
    None = all or unknown. `tool_mask` is 1 on the model's own tokens and 0 on tokens that a tool wrote; None means all
    are the model's. `finish_reason` "abort": it was given up, and no reward sees it. `tool_uses`: the calls it made,
    None where it had no tools. `metrics`: numbers on how it was written, which are averaged over the rollouts that have
    them. `media`: the prompt's images, as the model is given them.
    """

    index: int
    row: Row
    completion: Text
    completion_ids: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    tool_mask: tuple[int, ...] | None = None
    finish_reason: FinishReason = "stop"
    environment: Any = None
    tool_uses: tuple[ToolUse, ...] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    media: Any = None
    candidates: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier says of one completion.

    `score` is a float, or None when it cannot judge (abstains). `reason` is for people, `extracted` is the answer it
    read out of the completion, `metrics` are floats to be averaged and charted, `columns` go into the completions
    table as they are.
    """

    score: float | None
    reason: str = ""
    extracted: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def right(cls, reason: str = "", **more: Any) -> Verdict:
        """Score 1.0."""
        return cls(1.0, reason, **more)

    @classmethod
    def wrong(cls, reason: str, **more: Any) -> Verdict:
        """Score 0.0, with the reason."""
        return cls(0.0, reason, **more)

    @classmethod
    def abstain(cls, reason: str, **more: Any) -> Verdict:
        """No score: this cannot be judged."""
        return cls(None, reason, **more)


@dataclass(frozen=True, slots=True)
class Score:
    """What one reward says of one rollout. `value` None = abstained; `failure` names the kind of failure, if any."""

    value: float | None
    failure: str | None = None
    reason: str = ""


def completion_text(completion: Text) -> str:
    """The text that a verifier judges: the string itself, or the content of the last assistant message.

    Content blocks (`[{"type": "text", "text": …}]`) are joined; a conversation without an assistant message is "".
    """
    if isinstance(completion, str):
        return completion
    for message in reversed(completion):
        if message.get("role", "assistant") == "assistant":
            return _content_text(message.get("content"))
    return ""


def _content_text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(block.get("text") or "" for block in content if block.get("type", "text") == "text")
