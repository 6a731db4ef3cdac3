"""Answers compared as they are written: words, dates, times of day, option letters."""

from __future__ import annotations

from plaudit_math import words
from plaudit_math.gatherings import Same
from plaudit_math.nodes import Node
from plaudit_math.policy import Policy

WRITTEN = frozenset(["text", "choice", "date", "time", "quant"])


def same_written(gold: Node, answer: Node, policy: Policy, same: Same) -> bool:
    """Equal words, dates, times, quantified statements, option letters."""
    tags = {gold[0], answer[0]}
    if tags == {"text"}:
        return words.same_words(gold[1], answer[1])
    if tags == {"date"}:
        return gold[2:] == answer[2:] and (gold[1] == answer[1] or None in (gold[1], answer[1]))
    if tags == {"time"}:
        return _clock(gold) == _clock(answer) or (gold[1:4] == answer[1:4] and "" in (gold[4], answer[4]))
    if tags == {"quant"}:
        return gold[1] == answer[1] and same(gold[2], answer[2], policy)
    if "choice" in tags:
        return _choice(gold, answer, policy, same)
    return False


def _clock(time: Node) -> tuple[int, int, int]:
    hour = time[1] % 12 + 12 if time[4] == "p" else time[1] % 12 if time[4] == "a" else time[1]
    return hour, time[2], time[3]


def _choice(gold: Node, answer: Node, policy: Policy, same: Same) -> bool:
    """A letter meets the same letter, and the value beside it meets a value."""
    if gold[0] == answer[0] == "choice":
        if None in (gold[2], answer[2]):
            return gold[1] == answer[1]
        return gold[1] == answer[1] and same(gold[2], answer[2], policy)
    choice, other = (gold, answer) if gold[0] == "choice" else (answer, gold)
    return choice[2] is not None and other[0] not in WRITTEN and same(choice[2], other, policy)
