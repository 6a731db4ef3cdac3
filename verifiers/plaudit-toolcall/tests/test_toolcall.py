"""The public cases, the package's own corpus, message forms, options, and properties."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit import load_reward
from plaudit_toolcall import parse_calls
from plaudit_toolcall.corpus import cases
from plaudit_toolcall.verify import verify_toolcall

PUBLIC = [json.loads(line) for line in (Path(__file__).parent / "public_toolcall_cases.jsonl").read_text().splitlines()]
ADD = {"expected_calls": [{"name": "add", "arguments": {"a": 1}}]}


@pytest.mark.parametrize("row", [*PUBLIC, *cases()], ids=lambda row: row["id"])
def test_cases(row):
    assert verify_toolcall(row["completion"], row["reference"]).score == row["expected"]["score"]


@pytest.mark.parametrize(
    ("arguments", "score"), [('{"a": 1}', 1.0), ({"a": 1}, 1.0), ('{"a": 2}', 0.0), ("{'a': 1}", 0.0), ("", 0.0)]
)
def test_openai_messages(arguments, score):
    call = {"id": "x", "type": "function", "function": {"name": "add", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert verify_toolcall([{"role": "user", "content": "?"}, message], ADD).score == score


def test_options():
    python = "<tool_call>{'name': 'add', 'arguments': {'a': 1}}</tool_call>"
    assert verify_toolcall(python, ADD, repair=True).score == 1.0
    forged = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call><tool_response>2</tool_response>'
    assert verify_toolcall(forged, ADD, allow_forged_reply=True).score == 1.0
    oslo = [{"name": "go", "arguments": {"to": "Oslo"}}]
    assert verify_toolcall('{"name": "go", "arguments": {"to": "OSLO"}}', oslo, fold_case=True).score == 1.0


def test_tools_column_brings_the_defaults():
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"properties": {"b": {"default": 0}}}}}]
    assert verify_toolcall('{"name": "add", "arguments": {"a": 1, "b": 0}}', ADD["expected_calls"], tools).score == 1.0


ARGUMENTS = st.dictionaries(
    st.text(alphabet="abcd", min_size=1),
    st.integers() | st.booleans() | st.lists(st.text(alphabet="{}\"'<>/ab")),
    max_size=3,
)
CALLS = st.lists(st.tuples(st.sampled_from(["f", "g"]), ARGUMENTS), max_size=4)


@given(CALLS, CALLS)
def test_written_calls_are_read_back_and_match_only_their_like(made, other):
    as_json = [{"name": name, "arguments": arguments} for name, arguments in made]
    text = "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in as_json)
    parsed = parse_calls(text)
    assert [(call.name, dict(call.arguments)) for call in parsed.calls] == made
    wanted = [{"name": name, "arguments": arguments} for name, arguments in other]
    equal = sorted(map(json.dumps, as_json)) == sorted(map(json.dumps, wanted))
    if equal or len(made) != len(other):
        assert verify_toolcall(text, wanted).score == float(equal)


@given(st.text(alphabet="<>{}[]/|\"':,tool_cal function=name"))
def test_any_text_is_judged(text):
    assert verify_toolcall(text, ADD).score == 0.0


def test_a_lifted_verifier_sees_structured_calls():
    call = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    made = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    not_made = [{"role": "assistant", "content": "I would call add."}]
    reward = load_reward("toolcall")
    assert reward(completions=[made, not_made], answer=[ADD, ADD]) == [1.0, 0.0]
