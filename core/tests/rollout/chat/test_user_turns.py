"""What stands between a turn of the model that calls nothing and its next, where a user speaks in between."""

from __future__ import annotations

import pytest
from conversations import SCHEMAS
from dialogues import QUESTION
from family_tokenizers import FAMILIES, TOOLLESS, tokenizer_of
from plaudit.rollout.chat import tool_chat

SAID = {"role": "assistant", "content": "It is four."}
NEXT = {"role": "user", "content": "And three more?"}


@pytest.mark.parametrize(
    ("name", "tools"),
    [(name, SCHEMAS) for name in FAMILIES] + [(name, ()) for name in (*FAMILIES, *TOOLLESS)],
    ids=[f"{name}-tools" for name in FAMILIES] + [f"{name}-none" for name in (*FAMILIES, *TOOLLESS)],
)
def test_turn_and_suffix_are_the_rendered_conversation(name, tools):
    """A second derivation: what the template writes of the whole conversation ends with what was said, and ours."""
    chat = tool_chat(tokenizer_of(name), {}, tools)
    closing, rest = chat.suffix_text(SAID, [NEXT])
    whole = chat.template.render([QUESTION, SAID, NEXT], prompt=True)
    assert whole.endswith(SAID["content"] + closing + rest)
    assert NEXT["content"] in rest
    assert closing.strip().endswith((*chat.template.marks.ends, "<|end|>"))
    opening = chat.prompt_text([QUESTION])[len(chat.template.render([QUESTION])) :]
    assert rest.endswith(opening.removesuffix("<think>\n").rstrip("\n")) or opening in rest
    end, ids = chat.template.encode(closing), chat.template.encode(SAID["content"])
    assert chat.suffix_ids(SAID, [NEXT], (*ids, *end)) == chat.template.encode(rest)
    assert chat.suffix_ids(SAID, [NEXT], ids) == (*end, *chat.template.encode(rest))


def test_glm_opens_the_users_turn_once():
    chat = tool_chat(tokenizer_of("glm4moe"), {}, SCHEMAS)
    decode = chat.template.tokenizer.decode
    ends = {end: chat.template.encode(end) for end in ("<|user|>", "<|endoftext|>")}
    said = {end: decode(list(chat.suffix_ids(SAID, [NEXT], ids))) for end, ids in ends.items()}
    assert said["<|endoftext|>"] == "<|user|>" + said["<|user|>"]
