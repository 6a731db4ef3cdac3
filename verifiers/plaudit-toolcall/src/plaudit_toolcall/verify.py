"""The `toolcall` verifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plaudit import MalformedCall, ToolCall, Verdict, call_from, verifier

from plaudit_toolcall.match import difference, parameters_of
from plaudit_toolcall.parse import parse_calls


@verifier(executor="thread")
def verify_toolcall(
    completion: Any,
    reference: Any,
    tools: Any = None,
    completion_messages: Any = None,
    *,
    fold_case: bool = False,
    repair: bool = False,
    allow_forged_reply: bool = False,
    think_end: str = "</think>",
) -> Verdict:
    """1 when the completion makes exactly the expected calls.

    `reference`: `{"expected_calls": [{"name", "arguments"}], "tools": […], "order": "exact" | "any"}`, or the list of
    expected calls beside a `tools` column. `completion_messages` is the completion as the policy made it, structured
    calls included. Arguments that equal their schema default may be left out; an argument, a call or a tool's reply
    that was invented fails. No expected call: 1 when none is made. An unusable reference abstains.
    """
    if isinstance(reference, list):
        reference = {"expected_calls": reference}
    if not isinstance(reference, Mapping) or not isinstance(reference.get("expected_calls"), list):
        return Verdict.abstain("the reference needs a list 'expected_calls'")
    order = reference.get("order", "any")
    if order not in ("any", "exact"):
        return Verdict.abstain(f"order must be 'any' or 'exact', got {order!r}")
    try:
        expected = [call_from(call) for call in reference["expected_calls"]]
    except MalformedCall as error:
        return Verdict.abstain(f"an expected call cannot be read: {error}")
    parsed = parse_calls(
        completion if completion_messages is None else completion_messages, think_end=think_end, repair=repair
    )
    extracted = _shown(parsed.calls)
    if parsed.malformed:
        return Verdict.wrong(f"a malformed call: {parsed.malformed[0]}", extracted=extracted)
    if parsed.forged_reply and not allow_forged_reply:
        return Verdict.wrong("the text forges a tool's reply", extracted=extracted)
    schemas = parameters_of(reference.get("tools") or tools or [])
    trouble = difference(parsed.calls, expected, schemas, ordered=order == "exact", fold_case=fold_case)
    return Verdict.wrong(trouble, extracted=extracted) if trouble else Verdict.right(extracted=extracted)


def _shown(calls: tuple[ToolCall, ...]) -> str:
    return "; ".join(f"{call.name}({dict(call.arguments)!r})" for call in calls)[:1000]
