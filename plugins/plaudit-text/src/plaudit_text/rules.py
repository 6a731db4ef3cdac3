"""The `format` verifier: judges a completion by the rule that its reference names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from plaudit import Verdict, completion_text, verifier

from plaudit_text.tags import boxed, is_blank, only_block


def think_then_answer(text: str, *, case_sensitive: bool = True, **_: Any) -> Verdict:
    """Exactly one non-empty <think> block, then exactly one non-empty <answer> block, only whitespace elsewhere."""
    text = text if case_sensitive else _lower_tags(text, ("think", "answer"))
    think, answer = only_block(text, "think"), only_block(text, "answer")
    if think is None or answer is None:
        return Verdict.wrong("needs exactly one <think>…</think> and one <answer>…</answer>")
    if answer.start < think.end:
        return Verdict.wrong("the answer block must follow the think block")
    if is_blank(think.inside) or is_blank(answer.inside):
        return Verdict.wrong("a block is empty")
    around = text[: think.start] + text[think.end : answer.start] + text[answer.end :]
    if not is_blank(around):
        return Verdict.wrong("there is text outside the blocks")
    return Verdict.right(extracted=answer.inside.strip())


def think_then_text(
    text: str, *, think_prefilled: bool = False, allow_empty_think: bool = False, case_sensitive: bool = True, **_: Any
) -> Verdict:
    """One non-empty <think> block at the start, then non-empty text.

    `think_prefilled`: the prompt already ends with the opening tag, so the completion must not repeat it.
    """
    text = text if case_sensitive else _lower_tags(text, ("think",))
    block = only_block("<think>" + text if think_prefilled else text, "think")
    if block is None:
        return Verdict.wrong("needs exactly one <think>…</think>")
    whole = "<think>" + text if think_prefilled else text
    if not is_blank(whole[: block.start]):
        return Verdict.wrong("there is text before the think block")
    if is_blank(block.inside) and not allow_empty_think:
        return Verdict.wrong("the think block is empty")
    if is_blank(whole[block.end :]):
        return Verdict.wrong("nothing follows the think block")
    return Verdict.right(extracted=whole[block.end :].strip())


def has_boxed(text: str, **_: Any) -> Verdict:
    r"""A non-empty `\boxed{…}` in the completion itself; the prompt does not count."""
    filled = [content for content in boxed(text) if not is_blank(content)]
    return Verdict.right(extracted=filled[-1]) if filled else Verdict.wrong("no filled \\boxed{…} in the completion")


def cosine_length(text: str, *, reference: Mapping[str, Any], **_: Any) -> Verdict:
    """`cosine_value` of the reference's `length` and `correct`; without a length, of the completion in `unit`."""
    from plaudit_text.length import cosine_value

    length = reference.get("length")
    if length is None:
        length = _measure(text, reference.get("unit", "words"))
    if "correct" not in reference:
        return Verdict.abstain("the reference does not say whether the answer is correct")
    return Verdict(cosine_value(int(length), bool(reference["correct"]), **reference["params"]))


def ngram_repetition(text: str, *, reference: Mapping[str, Any], **_: Any) -> Verdict:
    """The n-gram repetition penalty over whitespace-separated words."""
    from plaudit_text.repetition import repeated_share

    params = reference["params"]
    return Verdict(repeated_share(text.split(), int(params["n"])) * float(params["max_penalty"]))


def soft_overlong(text: str, *, reference: Mapping[str, Any], **_: Any) -> Verdict:
    """DAPO's soft overlong punishment of the reference's `length`, or of the completion in `unit`."""
    from plaudit_text.length import overlong_punishment

    length = reference.get("length")
    if length is None:
        length = _measure(text, reference.get("unit", "words"))
    return Verdict(overlong_punishment(int(length), **reference["params"]))


RULES: dict[str, Callable[..., Verdict]] = {
    "think_then_answer": think_then_answer,
    "think_then_text": think_then_text,
    "has_boxed": has_boxed,
    "cosine_length": cosine_length,
    "ngram_repetition": ngram_repetition,
    "soft_overlong": soft_overlong,
}


@verifier(executor="thread")
def verify_format(
    completion: Any, reference: Mapping[str, Any], *, case_sensitive: bool = True, allow_empty_think: bool = False
) -> Verdict:
    """Judge by `reference["rule"]`, one of RULES; the reference's other keys are the rule's parameters.

    A reference without a known rule cannot be judged: the verifier abstains and says which rules there are.
    """
    rule = reference.get("rule") if isinstance(reference, Mapping) else None
    if rule not in RULES:
        return Verdict.abstain(f"no format rule {rule!r}; known: {', '.join(sorted(RULES))}")
    return RULES[rule](
        completion_text(completion),
        reference=reference,
        think_prefilled=bool(reference.get("think_prefilled", False)),
        case_sensitive=case_sensitive,
        allow_empty_think=allow_empty_think,
    )


def _lower_tags(text: str, tags: tuple[str, ...]) -> str:
    import re

    return re.sub(rf"</?(?:{'|'.join(tags)})>", lambda match: match.group().lower(), text, flags=re.IGNORECASE)


def _measure(text: str, unit: str) -> int:
    return len(text) if unit == "characters" else len(text.split())
