"""The `puzzle` verifier: countdown, sorted numbers and moves, decided by rules; no answer is ever run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from plaudit import BadJson, Verdict, completion_text, parse_json, verifier
from plaudit_json import find_json

from .expressions import BadExpression, evaluate

MAX_CHARACTERS = 100_000


@verifier(executor="thread")
def puzzle(completion: Any, reference: Any, *, think_end: str = "</think>") -> Verdict:
    """1 when the answer meets the rule that the reference names, else 0.

    `{"rule": "countdown", "target", "numbers"}`: an expression of `+ - * /` (also as a sign) and brackets that uses
    every number exactly once and equals the target.
    `{"rule": "sorted_numbers", "numbers", "direction"}`: the very numbers in ascending or descending order.
    `{"rule": "moves_json"}`: a JSON list of objects with the keys unit and to, and the list `moves` of the reference if
    it has one.

    The answer is what stands in the last `<answer>` or `\\boxed{}`, else the text. A reference without such a rule
    abstains.
    """
    rule = _RULES.get(reference.get("rule")) if isinstance(reference, Mapping) else None
    if rule is None:
        return Verdict.abstain(f"the reference needs a 'rule': one of {', '.join(_RULES)}")
    answer = answer_of(completion, think_end)
    if len(answer) > MAX_CHARACTERS:
        return Verdict.wrong(f"an answer of more than {MAX_CHARACTERS} characters")
    try:
        return rule(answer, reference)
    except BadReference as error:
        return Verdict.abstain(f"the reference cannot be used: {error}")


class BadReference(ValueError):
    """The reference lacks what its rule needs."""


def answer_of(completion: Any, think_end: str = "</think>") -> str:
    """The text of the last `<answer>…</answer>` or `\\boxed{…}`, else all that stands behind the reasoning."""
    text = completion_text(completion).rpartition(think_end)[2]
    tagged = re.findall(r"<answer>((?:(?!<answer>).)*?)</answer>", text, re.DOTALL)
    if tagged:
        return str(tagged[-1]).strip()
    start = text.rfind("\\boxed{")
    if start < 0:
        return text.strip()
    depth, body = 1, text[start + len("\\boxed{") :]
    for place, character in enumerate(body):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return body[:place].strip()
    return text.strip()


def countdown(answer: str, reference: Mapping[str, Any]) -> Verdict:
    """Every number exactly once, and exactly the target. Raises BadReference."""
    target, numbers = _number(reference, "target"), _numbers(reference)
    trouble = "nothing was written"
    for expression in _candidates(answer):
        try:
            made = evaluate(_one_side(expression, target), signs=True)
        except BadExpression as error:
            trouble = f"no expression: {error}"
            continue
        if Counter(made.numbers) != Counter(numbers):
            return Verdict.wrong("it does not use each number exactly once", extracted=expression)
        if made.value != target:
            return Verdict.wrong(f"its value is {made.value}", extracted=expression)
        return Verdict.right(extracted=expression)
    return Verdict.wrong(trouble)


def sorted_numbers(answer: str, reference: Mapping[str, Any]) -> Verdict:
    """The very numbers, in order. Raises BadReference."""
    direction = reference.get("direction", "ascending")
    if direction not in ("ascending", "descending"):
        raise BadReference(f"direction is {direction!r}; expected ascending or descending")
    wanted = sorted(_numbers(reference), reverse=direction == "descending")
    body = re.sub(r"[\[\](){}'\"`]", " ", answer.rpartition("\n\n")[2] if "[" not in answer else _last_list(answer))
    try:
        # From decimals, not floats: a rounded number is another number.
        made = [_fraction(word) for word in re.split(r"[,;\s]+", body.strip()) if word]
    except BadReference:
        return Verdict.wrong("not a list of numbers")
    if made != wanted:
        what = "not in order" if Counter(made) == Counter(wanted) else "not the numbers that were given"
        return Verdict.wrong(what, extracted=body.strip()[:500])
    return Verdict.right(extracted=body.strip()[:500])


def moves_json(answer: str, reference: Mapping[str, Any]) -> Verdict:
    """A list of moves, each with `unit` and `to`. Raises BadReference."""
    expected = reference.get("moves")
    if expected is not None and not isinstance(expected, list):
        raise BadReference("moves must be a list")
    try:
        made = parse_json(find_json(answer) or answer)
    except BadJson as error:
        return Verdict.wrong(f"not strict JSON: {error}")
    if not isinstance(made, list) or not made:
        return Verdict.wrong("not a list of moves")
    for place, move in enumerate(made):
        if not isinstance(move, dict):
            return Verdict.wrong(f"move {place} is not an object")
        missing = [key for key in ("unit", "to") if move.get(key) in (None, "")]
        if missing:
            return Verdict.wrong(f"move {place} has no {missing[0]!r}")
    if expected is not None and made != expected:
        return Verdict.wrong("not the moves that were expected")
    return Verdict.right(extracted=answer[:500])


_RULES: dict[Any, Callable[[str, Mapping[str, Any]], Verdict]] = {
    "countdown": countdown,
    "sorted_numbers": sorted_numbers,
    "moves_json": moves_json,
}


def _candidates(answer: str) -> list[str]:
    """The text as an expression, else its last line, without words in front of a colon and a final point."""
    lines = [line for line in answer.splitlines() if line.strip()]
    last = re.sub(r"^.*(?::|\bis\b)", "", lines[-1]) if lines else ""
    return [text for text in dict.fromkeys(one.strip(" \t`*_.") for one in (answer, *lines[-1:], last)) if text]


def _one_side(expression: str, target: Fraction) -> str:
    """Of `3*8 = 24` the expression, where the other side is the target."""
    sides = [side.strip() for side in expression.split("=")]
    if len(sides) != 2:
        return expression
    for side, other in (sides, reversed(sides)):
        if re.fullmatch(r"-?\d+(\.\d+)?", other) and Fraction(other) == target:
            return side
    return expression


def _last_list(answer: str) -> str:
    return answer[answer.rfind("[") :].partition("]")[0]


def _numbers(reference: Mapping[str, Any]) -> list[Fraction]:
    numbers = reference.get("numbers")
    if not isinstance(numbers, list) or not numbers:
        raise BadReference("it needs a list 'numbers'")
    return [_fraction(number) for number in numbers]


def _number(reference: Mapping[str, Any], key: str) -> Fraction:
    if key not in reference:
        raise BadReference(f"it needs {key!r}")
    return _fraction(reference[key])


def _fraction(written: Any) -> Fraction:
    try:
        text = str(written)
        if len(text) > 50 or isinstance(written, bool):
            raise BadReference(f"{text[:50]!r} is no number")
        number = Decimal(text.replace("−", "-"))
        if not number.is_finite() or abs(number.adjusted()) > 100:
            raise BadReference(f"{text!r} is no number")
        return Fraction(number)
    except InvalidOperation as error:
        raise BadReference(f"{written!r} is no number") from error
