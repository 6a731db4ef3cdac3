"""Whether a completion keeps a format of tags: strict rules that pay 1 or 0, incremental ones that pay by the tag."""

from __future__ import annotations

from typing import Any

from plaudit import completion_text, reward

from plaudit_text.rules import think_then_answer

_SEED_TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")


@reward(deterministic=True)
def think_format(completions: list[Any], **_: Any) -> list[float]:
    """1 when the text opens with one `<think>…</think>` and no second `<think>` follows, else 0.

    The rule of TRL's `think_format_reward`, same numbers: text after the block is free, leading text is not.
    """
    return [_opens_with_one_think(completion_text(completion)) for completion in completions]


def _opens_with_one_think(text: str) -> float:
    opening = "<think>"
    return float(text.startswith(opening) and opening not in text[len(opening) :] and "</think>" in text)


@reward(deterministic=True)
def think_answer_format(
    completions: list[Any], *, score: float = 1.0, case_sensitive: bool = True, **_: Any
) -> list[float]:
    """`score` for exactly one non-empty `<think>`, then one non-empty `<answer>`, only whitespace elsewhere."""
    texts = [completion_text(completion) for completion in completions]
    return [score * (think_then_answer(text, case_sensitive=case_sensitive).score or 0.0) for text in texts]


@reward(deterministic=True)
def incremental_format(
    completions: list[Any],
    *,
    tags: list[str] | None = None,
    per_tag: float = 0.25,
    trailing_penalty: float = 0.001,
    **_: Any,
) -> list[float]:
    """`per_tag` for each tag that is present, minus `trailing_penalty` a character after the last tag.

    `tags` defaults to <reasoning>, </reasoning>, <answer>, </answer>. The penalty applies when the last tag occurs
    exactly once; surrounding whitespace of the trailing text is free.
    """
    wanted = tuple(tags) if tags else _SEED_TAGS
    texts = [completion_text(completion) for completion in completions]
    return [_incremental(text, wanted, per_tag, trailing_penalty) for text in texts]


def _incremental(text: str, tags: tuple[str, ...], per_tag: float, trailing_penalty: float) -> float:
    score = per_tag * sum(tag in text for tag in tags)
    if text.count(tags[-1]) == 1:
        score -= trailing_penalty * len(text.rsplit(tags[-1], 1)[1].strip())
    return score


@reward(deterministic=True)
def xml_count(
    completions: list[Any],
    *,
    tags: list[str] | None = None,
    per_tag: float = 0.125,
    trailing_penalty: float = 0.001,
    **_: Any,
) -> list[float]:
    """`per_tag` for each tag that occurs exactly once (a repeated tag earns nothing), less trailing text."""
    wanted = tuple(tags) if tags else _SEED_TAGS
    texts = [completion_text(completion) for completion in completions]
    return [_counted(text, wanted, per_tag, trailing_penalty) for text in texts]


def _counted(text: str, tags: tuple[str, ...], per_tag: float, trailing_penalty: float) -> float:
    score = per_tag * sum(text.count(tag) == 1 for tag in tags)
    if text.count(tags[-1]) == 1:
        score -= trailing_penalty * len(text.rsplit(tags[-1], 1)[1].strip())
    return score
