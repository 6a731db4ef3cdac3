"""The verifier: extract, read, compare, and say why."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Literal

from plaudit import UsageError, Verdict, completion_text, verifier

from plaudit_math import budget
from plaudit_math.compare import same
from plaudit_math.extract import extract
from plaudit_math.failures import NeedsWorker, TooLarge, Undefined, Unreadable
from plaudit_math.gold import gold_texts, read_gold, unable
from plaudit_math.nodes import Node
from plaudit_math.policy import Policy, Scope, Units
from plaudit_math.reading import Reading, read

_TIME = re.compile(
    r"\b(?:what time|at what time|when does|when did|when will|o'clock|clock)\b|几点|什么时候", re.IGNORECASE
)
_ORDER = re.compile(
    r"\b(?:in (?:increasing |decreasing |ascending |descending |alphabetical )?order|"
    r"from (?:the )?(?:least|smallest|largest|greatest|lowest|highest))\b|从小到大|从大到小",
    re.IGNORECASE,
)
MAX_PROMPT = 20_000
_LEAST_S = 0.2


@verifier(version="1", executor="process", timeout_s=30.0)
def verify(
    completion: Any,
    reference: Any,
    prompt: Any = None,
    *,
    scope: Scope = "final",
    require_box: bool = False,
    units: Units = "optional",
    convert_units: bool = True,
    bare_percent: bool = True,
    decimal_digits: int = 6,
    gold_precision: bool = True,
    rel_tol: float = 0.0,
    any_variable: bool = False,
    log_base: Literal["10", "e"] = "10",
    strict_forms: bool = False,
    timeout_s: float = 4.0,
) -> Verdict:
    """Does the completion answer the reference? 1.0 or 0.0 with a reason; None where the reference cannot judge.

    completion: text, or messages of which the last assistant turn counts. reference: the gold answer in LaTeX or plain
    text (with or without $, \\boxed, ####), a number, or a list of answers of which one must be met. prompt: settles
    what is ambiguous without it (a time of day or a ratio; whether the order of a list counts).

    The options are described in the README. Raises UsageError on an option outside its values.
    """
    policy = _policy(
        scope, require_box, units, convert_units, bare_percent, decimal_digits, gold_precision, float(rel_tol),
        any_variable, log_base, strict_forms, float(timeout_s),
    )  # fmt: skip
    budget.begin(policy.timeout_s)
    golds = [read_gold(text) for text in gold_texts(reference)]
    if not golds:
        return Verdict.abstain("the reference is empty")
    text = completion_text(completion)
    question = completion_text_of(prompt)
    found = extract(text, policy)
    if found.text is None:
        return _without_answer(golds, found.how)
    if question and _echoes(text, question):
        return Verdict.wrong("the completion repeats the prompt")
    policy = _for_prompt(policy, question)
    return _judge(golds, read(found.text), found.text, found.how, policy)


def completion_text_of(prompt: Any) -> str:
    """The words of a prompt: a string, or the content of its messages."""
    if isinstance(prompt, str) or not prompt:
        return prompt or ""
    return "\n".join(str(message.get("content") or "") for message in prompt if message.get("role") == "user")


@lru_cache(maxsize=64)
def _policy(*values: Any) -> Policy:
    names = ("scope", "require_box", "units", "convert_units", "bare_percent", "decimal_digits", "gold_precision",
             "rel_tol", "any_variable", "log_base", "strict_forms", "timeout_s")  # fmt: skip
    options = dict(zip(names, values, strict=True))
    allowed = {"scope": ("final", "all"), "units": ("optional", "required", "ignore"), "log_base": ("10", "e")}
    for name, choices in allowed.items():
        if options[name] not in choices:
            raise UsageError(f"math: option {name}={options[name]!r}; expected one of {', '.join(choices)}")
    if not 0 < options["timeout_s"] <= 5:
        raise UsageError(f"math: option timeout_s={options['timeout_s']}; expected more than 0 and at most 5 seconds")
    return Policy(**options)


@lru_cache(maxsize=256)
def _for_prompt(policy: Policy, question: str) -> Policy:
    from dataclasses import replace

    question = question[-MAX_PROMPT:]
    if not question:
        return policy
    return replace(policy, is_time=bool(_TIME.search(question)), ordered_lists=bool(_ORDER.search(question)))


def _echoes(text: str, question: str) -> bool:
    stripped = text.strip()
    return len(stripped) > 20 and stripped in question


def _without_answer(golds: list[Reading], how: str) -> Verdict:
    reasons = [unable(gold) for gold in golds]
    if all(reasons):
        return Verdict.abstain(f"the reference cannot be read: {reasons[0]}")
    return Verdict.wrong(how)


def _judge(golds: list[Reading], answer: Reading, text: str, how: str, policy: Policy) -> Verdict:
    extracted = text if len(text) <= 500 else text[:500] + "…"
    unreadable = []
    for gold in golds:
        if gold.key and gold.key == answer.key:
            return Verdict.right(f"{how}: the same text as the reference", extracted=extracted)
        reason = unable(gold)
        if reason and (answer.nodes or not _by_library(gold, answer)):
            unreadable.append(reason)
        elif reason or _any_same(gold.nodes, answer.nodes, policy):
            return Verdict.right(f"{how}: equal to the reference", extracted=extracted)
    if len(unreadable) == len(golds):
        return Verdict.abstain(f"the reference cannot be read: {unreadable[0]}", extracted=extracted)
    why = f"cannot be read ({answer.failure})" if not answer.nodes else "not equal to the reference"
    return Verdict.wrong(f"{how}: {why}", extracted=extracted)


def _any_same(golds: tuple[Node, ...], answers: tuple[Node, ...], policy: Policy) -> bool:
    """Any reading of the one with any reading of the other; what only symbolic mathematics can tell comes last."""
    waiting = []
    clocks = golds[0][0] == answers[0][0] == "time" if golds and answers else False
    for gold in golds:
        for answer in answers:
            if clocks and gold[0] == answer[0] == "ratio":
                continue
            try:
                if same(gold, answer, policy):
                    return True
            except NeedsWorker:
                waiting.append((gold, answer))
            except (TooLarge, Undefined, Unreadable, RecursionError, OverflowError, ZeroDivisionError):
                continue
    if not waiting:
        return False
    from plaudit_math.worker import symbolically_same

    return symbolically_same(waiting[:2], max(_LEAST_S, budget.left()))


def _by_library(gold: Reading, answer: Reading) -> bool:
    """Two answers in a notation that only math-verify may know."""
    from plaudit_math.worker import library_same

    short = bool(gold.key and answer.key) and len(gold.key) < 500 > len(answer.key)
    return short and library_same(gold.key, answer.key, max(_LEAST_S, budget.left()))
