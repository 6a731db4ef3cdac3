"""The `json` verifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plaudit import BadJson, Verdict, completion_text, parse_json, same_value, verifier

from plaudit_json.extract import find_json
from plaudit_json.schema import BadSchema, schema_error


@verifier(executor="thread")
def verify_json(
    completion: Any,
    reference: Any,
    *,
    fenced: bool = True,
    embedded: bool = False,
    check_formats: bool = False,
    think_end: str = "</think>",
) -> Verdict:
    """1 when the completion is one strict JSON value that keeps the schema and equals the value, as far as given.

    `reference`: `{"schema": JSON Schema}`, `{"value": any}` or both; a string is parsed as JSON first. `fenced` accepts
    the value in the text's one Markdown block, `embedded` among prose. `check_formats` asserts `format` keywords. A
    reference without either key, or with a schema that is malformed or refers outside itself, abstains.
    """
    try:
        wanted = parse_json(reference) if isinstance(reference, str) else reference
    except BadJson as error:
        return Verdict.abstain(f"the reference is not JSON: {error}")
    if not isinstance(wanted, Mapping) or not {"schema", "value"} & set(wanted):
        return Verdict.abstain("the reference needs a key 'schema' or 'value'")
    source = find_json(completion_text(completion).rpartition(think_end)[2], fenced=fenced, embedded=embedded)
    if source is None:
        return Verdict.wrong("not exactly one JSON block")
    try:
        value = parse_json(source)
    except BadJson as error:
        return _abstain_or_wrong(wanted, f"not strict JSON: {error}")
    return _judge(value, wanted, source, check_formats)


def _judge(value: Any, wanted: Mapping[str, Any], source: str, check_formats: bool) -> Verdict:
    extracted = source.strip()[:1000]
    if "schema" in wanted:
        try:
            trouble = schema_error(value, wanted["schema"], check_formats=check_formats)
        except BadSchema as error:
            return Verdict.abstain(f"the schema cannot be used: {error}", extracted=extracted)
        if trouble:
            return Verdict.wrong(trouble, extracted=extracted)
    if "value" in wanted and not same_value(value, wanted["value"]):
        return Verdict.wrong("differs from the expected value", extracted=extracted)
    return Verdict.right(extracted=extracted)


def _abstain_or_wrong(wanted: Mapping[str, Any], reason: str) -> Verdict:
    """Bad syntax is wrong under any schema; a schema that cannot be used is found out all the same."""
    try:
        schema_error(None, wanted.get("schema", {}))
    except BadSchema as error:
        return Verdict.abstain(f"the schema cannot be used: {error}")
    return Verdict.wrong(reason)
