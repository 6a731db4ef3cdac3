"""Where images go in a prompt, and what a vision-language model cannot do."""

from __future__ import annotations

import pytest
from plaudit.errors import UsageError
from plaudit.grpo.policy.images import images_in, with_blocks, without_images
from plaudit.grpo.rows.prompts import as_row
from seeing import make_seeing, picture, rows
from test_seeing import look, watchless

from runs import make_trainer

BLOCKS = {
    "before the first user's text": (
        [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "user", "content": "v"}],
        ["A", "B"],
        ["s", "A", "B", "u", "v"],
    ),
    "where blocks leave room": (
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "u"}, {"type": "image"}]}],
        ["A", "B"],
        ["A", "u", "B"],
    ),
    "already there": ([{"role": "user", "content": [{"type": "image", "image": "A"}]}], [], ["A"]),
    "no content": ([{"role": "user", "content": "u"}, {"role": "assistant", "tool_calls": []}], [], ["u"]),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_images_find_their_places(case):
    messages, images, expected = BLOCKS[case]
    found = with_blocks(messages, images)
    flat = [block.get("image", block.get("text")) for message in found for block in message.get("content") or ()]
    assert flat == expected
    assert images_in(found) == [one for one in expected if one.isupper()]
    assert images_in(without_images(found)) == []
    assert with_blocks(found) == found


WRONG = {
    "string prompt": ({"prompt": "what?", "image": picture(8, 8)}, "its prompt is a string; give a conversation"),
    "too many": (
        {"prompt": [{"role": "user", "content": [{"type": "image"}]}], "images": [picture(8, 8)] * 2},
        "has 2 images, but its prompt has places for 1",
    ),
    "too few": (
        {"prompt": [{"role": "user", "content": [{"type": "image"}] * 3}], "images": [picture(8, 8)]},
        "has 1 images, but its prompt has places for 3",
    ),
    "no user": ({"prompt": [{"role": "system", "content": "s"}], "image": picture(8, 8)}, "places for 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_images_without_a_place_are_refused(case):
    record, message = WRONG[case]
    with pytest.raises(UsageError, match=message):
        as_row(record)


def test_what_a_vision_language_model_cannot_do_is_refused(tmp_path):
    model, processor = make_seeing("Qwen2-VL")
    refused = {
        "use_transformers_continuous_batching with a vision-language model": {
            "use_transformers_continuous_batching": True
        },
        "the chat template": {"tools": [look]},
    }
    for message, options in refused.items():
        with pytest.raises(UsageError, match=message):
            make_trainer(tmp_path, watchless, model=model, tokenizer=processor, rows=rows(), **options)
    reader = processor.tokenizer
    reader.chat_template = processor.chat_template
    with pytest.raises(UsageError, match="rows have images, but processing_class is a tokenizer"):
        make_trainer(tmp_path, watchless, model=model, tokenizer=reader, rows=rows()).train()
