"""The `choice` verifier."""

from __future__ import annotations

from typing import Any

from plaudit import Verdict, completion_text, verifier

from plaudit_choice.options import read_options
from plaudit_choice.statements import stated_labels

TAIL = 20_000
"""Only this many characters at the end of a completion are read: answers stand at the end."""


@verifier(executor="thread")
def verify_choice(
    completion: Any,
    reference: Any,
    choices: Any = None,
    *,
    labels: str = "ABCDEFGHIJ",
    bare_value: bool = False,
    think_end: str = "</think>",
) -> Verdict:
    """1 when the last stated answer names exactly the right option or options.

    `reference` is `{"choices": {label: text}, "answer": label or list}`, or a bare answer beside a `choices` column
    (mapping, list, or ARC's {"label", "text"}) or, without one, `labels`. `bare_value` also accepts an option's number
    without its unit where that is unique. A reference whose answer is no option abstains.
    """
    options = read_options(reference, choices, labels)
    if options is None:
        return Verdict.abstain(f"the reference names no option: {reference!r}"[:200])
    text = _final_part(completion_text(completion), think_end)
    stated = stated_labels(text, options, bare_value=bare_value)
    if not stated:
        return Verdict.wrong("no option is stated")
    extracted = ", ".join(stated)
    if frozenset(stated) == options.right:
        return Verdict.right(extracted=extracted)
    return Verdict.wrong(f"states {extracted}, expected {', '.join(sorted(options.right))}", extracted=extracted)


def _final_part(text: str, think_end: str) -> str:
    """What follows the reasoning; nothing where the reasoning was opened and never closed."""
    head, end, tail = text.rpartition(think_end)
    if end:
        return tail[-TAIL:]
    opening = think_end.replace("</", "<")
    return "" if opening in head + tail else text[-TAIL:]
