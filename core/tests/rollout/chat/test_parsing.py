"""Calls are read back as their family's template wrote them; what is malformed is a call with an error."""

from __future__ import annotations

import random

import pytest
from conversations import SCHEMAS, assistant
from family_tokenizers import FAMILIES, tokenizer_of
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit.rollout.chat import function_schema, tool_chat
from plaudit.rollout.chat.reading import read_tool_calls

USER = {"role": "user", "content": "hi"}
# These write True for true: what a schema types as text stays text, else the value is read.
LOSSY_SPACES = ("qwen3_5", "qwen3_6", "qwen3_8", "nemotron", "glm4moe", "gemma4", "lfm2")


def chat_of(name):
    return tool_chat(tokenizer_of(name), {}, SCHEMAS)


def completion_of(chat, message):
    """The ids that the template gives an assistant's turn: what the model would have sampled."""
    cue = chat.template.render([USER], prompt=True)
    whole = chat.template.render([USER, message])
    start = len(cue) if whole.startswith(cue) else len(chat.template.render([USER]))
    return chat.template.encode(whole[start:].rstrip("\n"))


def made(calls):
    return [(call.name, call.arguments) for call in calls]


@pytest.mark.parametrize("name", FAMILIES)
def test_calls_are_read_back(name):
    rng, chat = random.Random(name), chat_of(name)
    single = chat.family in ("Llama 3.1", "GPT-OSS")
    for _ in range(60):
        message = assistant(rng, most_calls=1 if single else 3, reasoning=False, content=chat.family != "Llama 3.1")
        wanted = [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]]
        if name.startswith(LOSSY_SPACES):  # these write text without its own marks: what stands in quotes or braces
            wanted = [(one, {**args, **({"query": "plain text"} if args else {})}) for one, args in wanted]
            for call, (_, args) in zip(message["tool_calls"], wanted, strict=True):
                call["function"]["arguments"] = args
        said, calls = chat.parse(completion_of(chat, message))
        assert made(calls) == wanted
        assert all(call.error is None for call in calls)
        assert [call["function"] for call in said["tool_calls"]] == [
            {"name": call.name, "arguments": call.arguments} for call in calls
        ]
        assert len({call.id for call in calls}) == len(calls)
        if chat.family not in ("Gemma 4", "GPT-OSS", "Llama 3.1"):
            assert said["content"].split() == message["content"].split()


def parse(name, text):
    chat = chat_of(name)
    return chat.parse(chat.template.encode(text))


QWEN35 = [
    ("hm\n</think>\n\nhello<|im_end|>", "hello", "hm", 0),
    ("<tool_call>\n<function=clock>\n</function>\n</tool_call><|im_end|>", "", None, 1),
    ("hm\n</think>\n\n<tool_call>\n<function=clock>\n</function>\n</tool_call><|im_end|>", "", "hm", 1),
]


@pytest.mark.parametrize(("text", "content", "reasoning", "calls"), QWEN35)
def test_reasoning_that_the_prompt_opened(text, content, reasoning, calls):
    message, found = parse("qwen3_5_think", text)
    assert (message["content"], message.get("reasoning_content"), len(found)) == (content, reasoning, calls)


QWEN3 = [
    ("hello<|im_end|>", "hello", []),
    ("<think>\nhm\n</think>\n\nhello<|im_end|>", "hello", []),
    ("<think>\nI might <tool_call>{}</tool_call>\n</think>\n\nno<|im_end|>", "no", []),
    ("<think>\nstill thinking", "", []),
    ('a\n<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call><|im_end|>', "a", [("clock", {})]),
    ('<tool_call>{"name": "clock"}</tool_call>', "", [("clock", {})]),
    ('<tool_call>{"name": "clock", "arguments": "{}"}', "", [("clock", {})]),
    ('<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call>', "", [("f", {"a": "</tool_call>"})]),
]


@pytest.mark.parametrize(("text", "content", "calls"), QWEN3)
def test_qwen3(text, content, calls):
    message, found = parse("qwen3", text)
    assert message["content"] == content
    assert made(found) == calls
    assert ("tool_calls" in message) == bool(calls)
    assert message.get("reasoning_content") == (text.split("\n")[1] if "<think>" in text else None)


MALFORMED = [
    ("qwen3", "<tool_call>{'name': 'clock'}</tool_call>", "not strict JSON"),
    ("qwen3", '<tool_call>{"name": "clock", "arguments": [1]}</tool_call>', "'clock' are not an object"),
    ("qwen3", '<tool_call>{"arguments": {}}</tool_call>', "needs a 'name'"),
    ("qwen3", '<tool_call>{"name": "clock", "arguments": {"a": 1, "a": 2}}</tool_call>', "stands twice"),
    ("qwen3", '<tool_call>{"name": "clock"} and more</tool_call>', "between a call and its closing tag"),
    ("qwen3", "<tool_call>", "not strict JSON"),
    ("qwen3_5_nothink", "<tool_call>\n<function=search>\n<parameter=query>\nx\n", "is not closed"),
    ("qwen3_5_nothink", "<tool_call>\n<function=search>\n<parameter=query>\nx\n</function>", "'search' is not closed"),
    ("llama3_1", '{"name": "clock", "parameters": {', "not strict JSON"),
    ("llama3_1", "<|python_tag|>clock()<|eom_id|>", "not strict JSON"),
    ("deepseekv3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>clock\n```json\n{}", "not closed"),
    ("deepseekv3", "<｜tool▁call▁begin｜>clock<｜tool▁call▁end｜>", "before its name"),
    ("glm4moe", '<tool_call>{"name": "clock"}</tool_call>', "begin with the tool's name"),
    ("glm4moe", "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>x</tool_call>", "not closed"),
    ("gptoss", " to=functions.search<|channel|>commentary json<|message|>{query}<|call|>", "not strict JSON"),
    ("gemma4", '<|tool_call>call:search{query:<|"|>x}<tool_call|>', "not strict JSON"),
    ("gemma4", "<|tool_call>call:search{", "not closed"),
    ("lfm2_2_5", "<|tool_call_start|>[search('x')]<|tool_call_end|>", "given by name"),
    ("lfm2_2_5", "<|tool_call_start|>[search(<|tool_call_end|>", "not a list of calls"),
]


@pytest.mark.parametrize(("name", "text", "error"), MALFORMED)
def test_malformed_calls_have_an_error(name, text, error):
    message, calls = parse(name, text)
    assert len(calls) == 1
    assert error in calls[0].error
    assert "tool_calls" not in message


WELL_FORMED = [
    ("llama3_1", '<|python_tag|>{"name": "clock", "parameters": {}}<|eom_id|>', [("clock", {})]),
    ("llama3_1", '<|python_tag|>{"name": "clock"}; {"name": "f", "parameters": {"a": 1}}',
     [("clock", {}), ("f", {"a": 1})]),
    ("llama3_1", "just words {}", []),
    ("deepseekv3", '<｜tool▁call▁begin｜>clock<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>', [("clock", {"a": 1})]),
    ("gptoss", "<|channel|>commentary to=functions.clock <|constrain|>json<|message|>{}<|call|>", [("clock", {})]),
    ("gptoss", "<|channel|>final<|message|>done<|return|>", []),
    ("qwen3_5_nothink", "<tool_call>\n<function=search>\n<parameter=query>\n12\n</parameter>\n<parameter=limit>\n12\n"
     "</parameter>\n<parameter=strict>\nTrue\n</parameter>\n</function>\n</tool_call><|im_end|>",
     [("search", {"query": "12", "limit": 12, "strict": True})]),
    ("qwen3_5_nothink", "<tool_call>\n<function=search>\n<parameter=query>\n<tool_call></tool_call>\n</parameter>\n"
     "</function>\n</tool_call>", [("search", {"query": "<tool_call></tool_call>"})]),
    ("gemma4", '<|tool_call>call:search{query:<|"|>a:1,{b:2}<|"|>,tags:[<|"|>t<|"|>]}<tool_call|>',
     [("search", {"query": "a:1,{b:2}", "tags": ["t"]})]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "wanted"), WELL_FORMED)
def test_calls_in_other_spellings_are_read(name, text, wanted):
    assert made(parse(name, text)[1]) == wanted
    if name not in ("llama3_1", "gptoss") and "qwen" not in name:
        assert made(read_tool_calls(text)) == wanted


def test_harmony_keeps_thinking_apart():
    message, calls = parse(
        "gptoss", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>42<|return|>"
    )
    assert (message["content"], message["thinking"], calls) == ("42", "hm", [])


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_tokens_are_parsed(name, data):
    """Whatever is sampled, nothing raises, and what is a call can be rendered."""
    chat = chat_of(name)
    size = len(chat.template.tokenizer)
    ids = data.draw(st.lists(st.integers(0, size - 1), max_size=30))
    message, calls = chat.parse(ids)
    assert message["role"] == "assistant"
    assert isinstance(message["content"], str)
    assert all(call.error or call.name for call in calls)


def typed(a: int, b: str = "x") -> int:
    """Add.

    Args:
        a: A number.
        b: Some text.
    """
    return a


class Room:
    def go(self, direction: str) -> str:
        """Go somewhere.

        Args:
            direction: Where to. (choices: ["north", "south"])
        """
        return direction


def test_schema_of_functions_and_methods():
    function = function_schema(typed)["function"]
    assert (function["name"], function["description"]) == ("typed", "Add.")
    assert function["parameters"]["properties"]["a"] == {"type": "integer", "description": "A number."}
    assert function["parameters"]["required"] == ["a"]
    method = function_schema(Room().go)["function"]["parameters"]
    assert method["properties"]["direction"]["enum"] == ["north", "south"]


def untyped(a):
    """Do.

    Args:
        a: It.
    """


def undescribed(a: int):
    """Do."""


def undocumented(a: int):
    return a


def starred(*a: int):
    """Do."""


class Odd:
    pass


def odd(a: Odd):
    """Do.

    Args:
        a: It.
    """


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (untyped, "'untyped': argument 'a' has no type"),
        (undescribed, "'undescribed'.*'a'.*Args"),
        (undocumented, "'undocumented' has no docstring"),
        (starred, "'starred': argument .*by name"),
        (odd, "'odd'.*JSON schema"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused(function, match):
    from plaudit.errors import UsageError

    with pytest.raises(UsageError, match=match):
        function_schema(function)
