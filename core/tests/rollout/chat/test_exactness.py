"""Dialogues are made of sampled ids and suffixes, and nothing that was sampled is tokenised again."""

from __future__ import annotations

import random

import pytest
from conversations import SCHEMAS, answers, assistant
from dialogues import QUESTION, exactness
from family_tokenizers import FAMILIES, tokenizer_of
from plaudit.rollout.chat import tool_chat


@pytest.mark.parametrize("name", FAMILIES)
def test_prompt_turn_and_suffix_are_the_rendered_conversation(name):
    """A second derivation: for text that the template itself wrote, the pieces together are the whole."""
    rng = random.Random(name)
    chat = tool_chat(tokenizer_of(name), {}, SCHEMAS)
    single = chat.family in ("Llama 3.1", "GPT-OSS")
    for _ in range(40):
        message = assistant(rng, most_calls=1 if single else 3, reasoning=False, content=False)
        said, replies = chat.template.render([QUESTION, message]), answers(rng, message)
        whole = chat.template.render([QUESTION, message, *replies], prompt=True)
        closing, rest = chat.suffix_text(message, replies)
        # Where the turn ends: behind its closing token, or (GLM) where the tools' answers open.
        sampled = said[: said.rindex(closing)] if closing in said[len(chat.prompt_text([QUESTION])) - 30 :] else said
        assert whole == sampled + closing + rest
        end = chat.template.encode(closing)
        ids = chat.template.encode(sampled)
        assert chat.suffix_ids(message, replies, ids + end) == chat.template.encode(rest)
        assert chat.suffix_ids(message, replies, ids) == end + chat.template.encode(rest)


@pytest.mark.parametrize("name", FAMILIES)
def test_two_hundred_random_dialogues(name):
    """The ids trained on are those sampled, pairs that merge when they are encoded again included."""
    found = exactness(name, dialogues=200)
    assert (found.same_ids, found.same_mask) == (200, 200)
    assert found.merged > 100, "the dialogues must hold turns that change when they are encoded again"


@pytest.mark.parametrize(
    ("name", "last", "begins"),
    [
        ("qwen3", "<|im_end|>", "\n<|im_start|>user"),
        ("qwen3", "<|endoftext|>", "\n<|im_start|>user"),
        ("qwen3", "</tool_call>", "<|im_end|>\n<|im_start|>user"),
        ("llama3_1", "<|eom_id|>", "<|start_header_id|>ipython"),
        ("llama3_1", "}", "<|eot_id|><|start_header_id|>ipython"),
        ("glm4moe", "<|observation|>", "\n<tool_response>"),
        ("glm4moe", "<|user|>", "<|observation|>\n<tool_response>"),
        ("glm4moe", "</tool_call>", "<|observation|>\n<tool_response>"),
        ("gptoss", "<|call|>", "<|start|>functions.clock to=assistant"),
        ("gemma4", "<|tool_response>", "response:clock{"),
        ("gemma4", "<tool_call|>", "<|tool_response>response:clock{"),
        ("deepseekv3", "<｜tool▁calls▁end｜>", "<｜end▁of▁sentence｜><｜tool▁outputs▁begin｜>"),
    ],
)
def test_the_turn_is_closed_once(name, last, begins):
    chat = tool_chat(tokenizer_of(name), {}, SCHEMAS)
    call = {"id": "call00000", "type": "function", "function": {"name": "clock", "arguments": {}}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    reply = {"role": "tool", "name": "clock", "tool_call_id": "call00000", "content": "noon"}
    suffix = chat.suffix_ids(message, [reply], chat.template.encode(last))
    assert chat.template.tokenizer.decode(list(suffix)).startswith(begins)


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("qwen3", {"<|im_end|>", "<|endoftext|>"}),
        ("gptoss", {"<|return|>", "<|call|>"}),  # not <|end|>, which stands between the parts of a turn
        ("glm4moe", {"<|endoftext|>", "<|user|>", "<|observation|>"}),
        ("llama3_1", {"<|eot_id|>", "<|eom_id|>"}),
        ("gemma4", {"<eos>", "<turn|>", "<|tool_response>"}),
    ],
)
def test_where_generation_stops(name, ends):
    tokenizer = tokenizer_of(name)
    assert tool_chat(tokenizer, {}, SCHEMAS).end_ids == {tokenizer.convert_tokens_to_ids(end) for end in ends}


def test_llama_answers_several_calls():
    """Its template takes one call a turn; the answers of all still follow."""
    chat = tool_chat(tokenizer_of("llama3_1"), {}, SCHEMAS)
    message, calls = chat.parse(chat.template.encode('<|python_tag|>{"name": "clock"}; {"name": "clock"}<|eom_id|>'))
    replies = [{"role": "tool", "name": "clock", "tool_call_id": call.id, "content": f"answer {place}"}
               for place, call in enumerate(calls)]  # fmt: skip
    text = chat.template.tokenizer.decode(list(chat.suffix_ids(message, replies, chat.template.encode("<|eom_id|>"))))
    assert "answer 0" in text
    assert "answer 1" in text


# The peer trims at the end-of-sequence token alone, so it leaves out the line break behind Gemma 4 v2's `<turn|>`.
SAME_SUFFIX = [name for name in FAMILIES if name not in ("gemma4_v2", "deepseek_r1_distill")]


@pytest.mark.parametrize("name", SAME_SUFFIX)
def test_suffixes_are_the_peers(name):
    from types import SimpleNamespace

    from trl import GRPOTrainer
    from trl.chat_template_utils import get_training_chat_template

    rng, tokenizer = random.Random(name), tokenizer_of(name)
    chat = tool_chat(tokenizer, {}, SCHEMAS)
    try:
        theirs = get_training_chat_template(tokenizer)
    except ValueError:  # it has no variant of this template, and takes the original
        theirs = None
    peer = SimpleNamespace(
        processing_class=tokenizer,
        _tokenizer=tokenizer,
        _is_vlm=False,
        chat_template=theirs or tokenizer.chat_template,
        chat_template_kwargs={},
    )
    for _ in range(10):
        message = assistant(rng, most_calls=1, reasoning=False, content=False)
        replies = answers(rng, message)
        if chat.family == "Gemma 4":  # the peer's dummy has no id that an answer could name
            replies = [{key: reply[key] for key in reply if key != "tool_call_id"} for reply in replies]
            message["tool_calls"] = [{key: call[key] for key in call if key != "id"} for call in message["tool_calls"]]
        end = chat.template.encode(chat.suffix_text(message, replies)[0])
        assert list(chat.suffix_ids(message, replies, end)) == GRPOTrainer._get_tool_suffix_ids(peer, replies)
