"""Our templates against the peer's, and what they promise: a turn reads the same whatever follows it."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from conversations import SCHEMAS, conversation
from family_tokenizers import FAMILIES, TOOLLESS, peer_template, tokenizer_of
from plaudit.errors import UsageError
from plaudit.rollout.chat import tool_chat

OURS = ["qwen3", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "deepseekv3", "deepseek_r1_distill", "glm4moe"]
# (original, the peer's variant that keeps every turn as it is)
SAME_AS_PEER = [(name, f"{name}_training") for name in OURS[:4]]


@pytest.mark.parametrize(("name", "variant"), SAME_AS_PEER)
@pytest.mark.parametrize("thinking", [None, True, False])
def test_ours_reads_as_the_peers(name, variant, thinking):
    rng = random.Random(name)
    options = {} if thinking is None else {"enable_thinking": thinking}
    ours = tool_chat(tokenizer_of(name), options, SCHEMAS).template
    assert ours.source not in (peer_template(name), peer_template(variant))
    theirs = replace(ours, source=peer_template(variant), options=options)
    for _ in range(100):
        turns = conversation(rng, rounds=rng.randint(0, 3))
        schemas = tuple(SCHEMAS) if rng.random() < 0.8 else ()
        prompt = turns[-1]["role"] != "assistant"
        ours, theirs = (replace(one, schemas=schemas) for one in (ours, theirs))
        assert ours.render(turns, prompt=prompt) == theirs.render(turns, prompt=prompt)


@pytest.mark.parametrize("thinking", [None, False])
def test_glm_reads_as_its_own_template(thinking):
    """The peer's variant ends turns in another place; the original, where it drops no reasoning, reads as ours."""
    rng = random.Random(1)
    options = {} if thinking is None else {"enable_thinking": thinking}
    ours = tool_chat(tokenizer_of("glm4moe"), options, SCHEMAS).template
    theirs = replace(ours, source=peer_template("glm4moe"), options=options)
    for _ in range(200):
        turns = conversation(rng, rounds=rng.randint(0, 3))
        if turns[-1]["role"] == "user":
            turns = [{key: one[key] for key in one if key != "reasoning_content"} for one in turns]
        assert ours.render(turns, prompt=True) == theirs.render(turns, prompt=True)


def test_deepseek_reads_as_the_peers_without_tools_in_the_prompt():
    """Its template shows no schemas and opens the tools' answers only once: one round without schemas is alike."""
    rng = random.Random(2)
    chat = tool_chat(tokenizer_of("deepseekv3"), {}, SCHEMAS)
    ours = replace(chat.template, schemas=())
    theirs = replace(ours, source=peer_template("deepseekv3_training"), options={})
    for _ in range(200):
        turns = conversation(rng, rounds=rng.randint(0, 1), reasoning=False)
        assert ours.render(turns, prompt=True) == theirs.render(turns, prompt=True)
    assert "Search the archive" in chat.prompt_text([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("name", FAMILIES)
def test_what_follows_never_changes_what_stands_before(name):
    """Over rounds of tools for every family; for our own templates over further questions, too."""
    rng = random.Random(name)
    single = name.startswith(("llama", "gptoss"))
    template = tool_chat(tokenizer_of(name), {}, SCHEMAS).template
    for _ in range(40):
        turns = conversation(rng, rounds=3, most_calls=1 if single else 2, reasoning=name in OURS)
        if name not in OURS:
            # Gemma 4 writes content behind the tools' answers, and GPT-OSS drops reasoning before a final answer.
            turns = [one | ({"content": ""} if one["role"] == "assistant" else {}) for one in turns]
            last = max(place for place, one in enumerate(turns) if one["role"] == "tool")
            turns = turns[: last + 1]
        ends = [place + 1 for place, one in enumerate(turns) if one["role"] == "assistant"] + [len(turns)]
        for short, whole in pairwise(ends):
            assert template.render(turns[:whole]).startswith(template.render(turns[:short]))


@pytest.mark.parametrize("name", TOOLLESS)
def test_a_template_without_tools_is_refused(name):
    with pytest.raises(UsageError, match=r"cannot carry them: it (drops|fails).*Qwen3"):
        tool_chat(tokenizer_of(name), {}, SCHEMAS)
    chat = tool_chat(tokenizer_of(name), {}, ())
    assert chat.parse(chat.template.encode("hello")) == ({"role": "assistant", "content": "hello"}, [])


def test_no_template_is_refused():
    bare = tokenizer_of("qwen3", "x")
    bare.chat_template = None
    with pytest.raises(UsageError, match="no chat template"):
        tool_chat(bare, {}, SCHEMAS)


UNREADABLE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}CALL {{ c.function.name }} "
    "WITH {{ c.function.arguments }}{% endfor %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
CHANGING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last %}last {% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "match"), [(UNREADABLE, "in no format that is known"), (CHANGING, "rendered otherwise once tools")]
)
def test_a_template_of_unknown_make_that_cannot_be_used_is_refused(template, match):
    with pytest.raises(UsageError, match=match):
        tool_chat(tokenizer_of("qwen2_5", template), {}, SCHEMAS)


def test_a_template_that_hides_the_tools_is_warned_of(caplog):
    silent = CHANGING.replace("{% if loop.last %}last {% endif %}", "")
    tool_chat(tokenizer_of("qwen2_5", silent), {}, SCHEMAS)
    assert "does not show the model which tools" in caplog.text


@pytest.mark.parametrize("name", FAMILIES)
def test_blocks_of_text_read_as_text(name):
    template = tool_chat(tokenizer_of(name), {}, SCHEMAS).template
    turns = conversation(random.Random(4), rounds=1, most_calls=1)
    blocks = [
        {**turn, "content": [{"type": "text", "text": part} for part in (turn["content"][:2], turn["content"][2:])]}
        for turn in turns
    ]
    assert template.render(blocks) == template.render(turns)


def test_an_image_for_a_model_of_text_is_refused():
    seen = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}]
    with pytest.raises(UsageError, match="'user' has a block of type 'image', which"):
        tool_chat(tokenizer_of("qwen3"), {}, SCHEMAS).prompt_ids(seen)
    assert "<|image_pad|>" in tool_chat(tokenizer_of("qwen3_vl"), {}, SCHEMAS).prompt_text(seen)
    assert "<|image_pad|>" in tool_chat(tokenizer_of("qwen3_5_think"), {}, SCHEMAS).prompt_text(seen)


def test_named_variants_the_one_for_tools_is_taken():
    tokenizer = tokenizer_of("qwen2_5", "named")
    tokenizer.chat_template = {"default": "plain", "tool_use": peer_template("qwen2_5")}
    assert tool_chat(tokenizer, {}, SCHEMAS).family == "Qwen2.5"
    assert tool_chat(tokenizer, {}, ()).template.source == "plain"
