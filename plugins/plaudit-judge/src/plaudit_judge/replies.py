"""Reading a judge's reply. Whatever is not one clear verdict is Unclear, never a guess and never a clamped number."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit import BadJson, parse_json, parse_json_prefix
from plaudit_json import fences

_MARKS = re.compile(r"[*_`#]+")
_QUOTED = re.compile(r"\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”|(?<!\w)'[^'\n]{0,400}'(?!\w)|`[^`\n]{0,400}`")
_NEGATED = re.compile(r"\b(?:not|never|isn't|n't|neither|cannot be)\s+(?:\w+\s+)?$", re.IGNORECASE)


class Unclear(ValueError):
    """The reply holds no verdict, or more than one."""


def strip_reasoning(reply: str, think_end: str = "</think>") -> str:
    """The reply behind the judge's own reasoning. Raises Unclear where the reasoning never ends."""
    head, end, tail = reply.rpartition(think_end)
    if end:
        return tail
    if think_end.replace("</", "<") in head + tail:
        raise Unclear("the judge's reasoning never ended")
    return reply


def read_score(reply: str, label: str, scale: Sequence[float]) -> float:
    """The one number behind `label:` as a share of `scale` (low, high), in 0..1. "8/10" is 8 where high is 10.

    Raises Unclear on no number, a range, a number off the scale, or two different numbers.
    """
    low, high = scale
    text = _MARKS.sub("", strip_reasoning(reply))
    pattern = rf"(?<!\w){re.escape(label)}\s*(?:\([^)\n]{{0,30}}\))?\s*(?:[:=：]|\bis\b)\s*(?=([^\n]{{0,60}}))"
    found = {_number_of(match.group(1), high) for match in re.finditer(pattern, text, re.IGNORECASE)}
    if len(found) != 1:
        raise Unclear(f"no '{label}: number' in the reply" if not found else "two different numbers in the reply")
    return _on_scale(found.pop(), low, high)


def _number_of(phrase: str, high: float) -> float:
    match = re.match(r"\[?\s*([-+]?\d+(?:\.\d+)?)\s*\]?(?:\s*(?:/|out of)\s*(\d+(?:\.\d+)?))?\s*(.?)(\d?)", phrase)
    if match is None:
        raise Unclear(f"{phrase[:40]!r} is not a number")
    number, whole, following, digit = match.groups()
    if (following in "%:" and following) or (following in "-–—,~" and following and digit):
        raise Unclear(f"{phrase[:40]!r} is not one number")
    if re.match(r"\s*(?:to|or|-|–|—)\s*\d", phrase[match.end(1) :]):
        raise Unclear(f"{phrase[:40]!r} is a range")
    if whole is not None and float(whole) != high:
        raise Unclear(f"out of {whole}, expected out of {high:g}")
    return float(number)


def _on_scale(value: float, low: float, high: float) -> float:
    if not math.isfinite(value) or not low <= value <= high:
        raise Unclear(f"{value:g} is off the scale {low:g} to {high:g}")
    return (value - low) / (high - low)


def read_verdict(reply: str, tokens: Mapping[str, float]) -> float:
    """The value of the one token that the reply states as a word of its own, without a negation.

    Raises Unclear on none, on two with different values (one may be quoted), or on one that stands in quotes only. A
    token in another case counts only where the reply, or the line behind a label such as "Verdict:", says no more.
    """
    whole = strip_reasoning(reply)
    text = _QUOTED.sub(" ", whole)
    stated = {tokens[token] for token in tokens if _stands(token, text)}
    if stated:
        stated |= {tokens[token] for token in tokens if _stands(token, whole)}
    else:
        folded = {token.casefold(): value for token, value in tokens.items()}
        lines = [_MARKS.sub("", line).rpartition(":")[2].strip(" .!").casefold() for line in text.splitlines()]
        stated = {folded[line] for line in lines if line in folded}
    if len(stated) != 1:
        raise Unclear("no verdict in the reply" if not stated else "two different verdicts in the reply")
    return stated.pop()


def _stands(token: str, text: str) -> bool:
    before = r"(?<![\w-])" if token[:1].isalnum() else ""
    after = r"(?![\w-])" if token[-1:].isalnum() else ""
    for match in re.finditer(f"{before}{re.escape(token)}{after}", text):
        if _NEGATED.search(text[max(0, match.start() - 40) : match.start()]):
            raise Unclear(f"the verdict {token!r} is negated")
        return True
    return False


def read_grade(reply: str, pattern: str, values: Mapping[str, float]) -> float:
    """The value behind the label of `pattern`, e.g. "GRADE: C|I". Raises Unclear on none or two different ones."""
    label = re.split(r"\s*[:=]", pattern, maxsplit=1)[0].strip()
    choices = "|".join(re.escape(choice) for choice in sorted(values, key=len, reverse=True))
    text = _MARKS.sub("", strip_reasoning(reply))
    found = set(re.findall(rf"(?<!\w){re.escape(label)}\s*[:=]\s*[\[(]?({choices})(?!\w)(?![ \t]*[|/])", text))
    if len(found) != 1:
        raise Unclear(f"no '{label}' in the reply" if not found else "two different grades in the reply")
    return values[found.pop()]


def read_json_score(reply: str, key: str, scale: Sequence[float]) -> float:
    """The number at `key` of the reply's JSON object, as a share of `scale`. The one fenced object, else the last one.

    Raises Unclear on no such object, no finite number (a bool or a text is none), or a number off the scale.
    """
    objects = [value for value in _json_values(strip_reasoning(reply), "{") if isinstance(value, dict) and key in value]
    if not objects:
        raise Unclear(f"no JSON object with {key!r} in the reply")
    return _json_number(objects[-1][key], scale)


def read_json_scores(reply: str, count: int, scale: Sequence[float]) -> list[float]:
    """The list of `count` numbers in the reply, each as a share of `scale`. Raises Unclear on anything else."""
    lists = [value for value in _json_values(strip_reasoning(reply), "[") if isinstance(value, list)]
    if not lists or len(lists[-1]) != count:
        raise Unclear(f"no list of {count} numbers in the reply")
    return [_json_number(value, scale) for value in lists[-1]]


def _json_number(value: Any, scale: Sequence[float]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unclear(f"{value!r} is not a number")
    return _on_scale(float(value), *scale)


def _json_values(text: str, opening: str) -> list[Any]:
    """The JSON values of a reply in order: those of its json blocks where it has some, else those among its prose."""
    values = []
    for block in fences(text):
        if block.tag in ("", "json"):
            try:
                values.append(parse_json(block.body))
            except BadJson as error:
                raise Unclear(f"the JSON block cannot be read: {error}") from error
    return values or _values_among_prose(text, opening)


def _values_among_prose(text: str, opening: str) -> list[Any]:
    values, position = [], text.find(opening)
    while position >= 0 and len(values) < 100:
        try:
            value, position = parse_json_prefix(text, position)
            values.append(value)
        except BadJson:
            position += 1
        position = text.find(opening, position)
    return values
