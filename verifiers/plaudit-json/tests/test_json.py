"""The public cases, the package's own corpus, options, and properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit import BadJson, parse_json, same_value
from plaudit_json.corpus import cases
from plaudit_json.schema import schema_error
from plaudit_json.verify import verify_json

PUBLIC = [json.loads(line) for line in (Path(__file__).parent / "public_json_cases.jsonl").read_text().splitlines()]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("row", [*PUBLIC, *cases()], ids=lambda row: row["id"])
def test_cases(row):
    assert verify_json(row["completion"], row["reference"]).score == row["expected"]["score"]


@given(VALUES)
def test_every_value_passes_itself_and_parses_back(value):
    text = json.dumps(value)
    assert same_value(parse_json(text), value)
    assert verify_json(f"```json\n{json.dumps(value, indent=2)}\n```", {"value": value}).score == 1.0
    assert verify_json(json.dumps([value]), {"value": value}).score == 0.0


@given(st.text())
def test_any_text_parses_as_python_does_or_is_refused(text):
    try:
        value = parse_json(text)
    except BadJson:
        return
    assert same_value(value, json.loads(text))


def test_options():
    reference = {"schema": {"type": "object", "properties": {"day": {"format": "date"}}}}
    assert verify_json('So {"day": "today"} it is', reference, embedded=True).score == 1.0
    assert verify_json('{"day": "today"}', reference, check_formats=True).score == 0.0
    assert verify_json("```json\n{}\n```", reference, fenced=False).score == 0.0
    assert verify_json('{"day": "x"}', json.dumps(reference)).score == 1.0


@pytest.mark.parametrize(
    "dialect", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"]
)
def test_the_dialect_that_the_schema_names(dialect):
    schema = {"$schema": dialect, "items": [{"type": "integer"}], "additionalItems": False}
    assert schema_error([1], schema) is None
    assert schema_error([1, 2], schema) is not None
