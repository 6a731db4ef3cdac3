"""How long the prompts are in tokens, and whether they fit the model's context."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plaudit.errors import UsageError

SAMPLED_ROWS = 5000
LONGEST_ROWS = 100


@dataclass(frozen=True, slots=True)
class PromptLengths:
    """In tokens. Percentiles are of at most 5,000 evenly spaced rows; `longest` looks at the longest texts too."""

    p50: int
    p90: int
    p99: int
    longest: int
    longest_row: int


def measure_prompts(rows: Sequence[Mapping[str, Any]], codec: Any) -> PromptLengths:
    """Measure the prompts of `rows` with a PromptCodec. Raises UsageError on a prompt without tokens."""
    stride = max(1, -(-len(rows) // SAMPLED_ROWS))
    spaced = list(range(0, len(rows), stride))
    wordy = heapq.nlargest(LONGEST_ROWS, range(len(rows)), key=lambda index: len(str(rows[index]["prompt"])))
    measured = token_counts([rows[index] for index in [*spaced, *wordy]], codec)
    ordered = sorted(measured[: len(spaced)])
    longest = max(measured)
    p50, p90, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.9, 0.99))
    return PromptLengths(p50, p90, p99, longest, [*spaced, *wordy][measured.index(longest)])


def token_counts(rows: Sequence[Mapping[str, Any]], codec: Any) -> list[int]:
    """Prompt length of each row, in tokens, as the trainer will encode it."""
    from plaudit.grpo.rows.prompts import as_row

    if not rows:
        return []
    return [len(ids) for ids in codec.encode([as_row(row) for row in rows])]


def check_context(
    lengths: PromptLengths, *, context_tokens: int | None, max_completion_length: int, what: str = "prompts"
) -> None:
    """Raise UsageError when the longest prompt and a full completion do not fit the model's context."""
    if context_tokens is None or lengths.longest + max_completion_length <= context_tokens:
        return
    room = context_tokens - max_completion_length
    where = f"the longest of the {what} has {lengths.longest} tokens (row {lengths.longest_row})"
    if room < 1:
        raise UsageError(
            f"config.max_completion_length = {max_completion_length} leaves no room for a prompt in the model's "
            f"context of {context_tokens} tokens; {where}: set it to at most {max(1, context_tokens - lengths.longest)}"
        )
    raise UsageError(
        f"{where}; with config.max_completion_length = {max_completion_length} the model's context of {context_tokens} "
        f"leaves {room} for it: lower that, or drop longer rows with data.max_prompt_tokens = {room}"
    )
