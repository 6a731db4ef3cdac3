"""Vision-language models with tools and environments: images in first observations and in tools' answers."""

from __future__ import annotations

import string
from unittest import mock

import pytest
import seeing
import torch
from plaudit.errors import UsageError
from plaudit.grpo.batch import Experience, collate
from plaudit.grpo.logprobs import TokenScorer
from plaudit.rollout.chat import tool_chat
from plaudit.rollout.media import Media, joined
from plaudit.rollout.protocol import Generated, Request, SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator
from seeing import picture

from runs import make_trainer

VOCABULARY = {
    token: place
    for place, token in enumerate(["<pad>", "<eos>", "<u>", "<s>", "<a>", *string.printable, *seeing.SPECIAL])
}
TEMPLATE = """\
{%- if tools %}<s>{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<eos>{% endif %}
{%- for message in messages %}<{{ message.role[0] }}>
{%- if message.content is string %}{{ message.content }}
{%- else %}{% for block in message.content %}{% if block.type == 'image' %}IMAGE{% else %}{{ block.text }}{% endif %}
{%- endfor %}{% endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<eos>
{%- endfor %}
{%- if add_generation_prompt %}<a>{% endif %}"""
CALL = '<tool_call>\n{"name": "look", "arguments": {"place": 1}}\n</tool_call>'


def make_model(family, dtype=torch.float32):
    """A tiny model of the family whose vocabulary and template can carry tools."""
    text = seeing.TEXT | {"vocab_size": len(VOCABULARY), "max_position_embeddings": 2048}
    with mock.patch.multiple(seeing, VOCABULARY=VOCABULARY, TEXT=text, TEMPLATE=TEMPLATE):
        return seeing.make_seeing(family, dtype=dtype)


class Room:
    """Shows a picture, and another when asked."""

    def reset(self, place: int) -> list:
        self.place = place
        return [{"type": "text", "text": "look: "}, {"type": "image", "image": picture(20, 28, seed=place)}]

    def look(self, place: int) -> list:
        """Look closer.

        Args:
            place: Where.
        """
        return [{"type": "image", "image": picture(36, 20, seed=50 + self.place)}, {"type": "text", "text": "closer"}]


class Guide(Room):
    """Shows the other pictures itself, when the model has said something."""

    tools = ()

    def reset(self, place: int) -> list:
        self.shown = 0
        return super().reset(place)

    def answer_turn(self, message):
        self.shown += 1
        return self.look(0) if self.shown <= 1 + self.place % 2 else None


class Script:
    """Looks once or twice, then says what it saw."""

    exact = True

    def __init__(self, tokenizer):
        self.tokenizer, self.requests = tokenizer, []

    def refresh(self, step):
        pass

    def generate(self, requests, sampling):
        for request in requests:
            self.requests.append(request)
            turns = self.tokenizer.decode(list(request.prompt_ids)).count("<a>")
            text = CALL if turns <= 1 + request.index % 2 else f"saw {request.index}"
            ids = self.tokenizer(text=text + "<eos>", add_special_tokens=False)["input_ids"]
            yield Generated(request.index, tuple(ids), (-0.5,) * len(ids), "stop")

    def close(self):
        pass


ROWS = [{"prompt": [{"role": "user", "content": "what? "}], "place": place} for place in range(4)]


@pytest.fixture(params=seeing.FAMILIES)
def family(request):
    return request.param


class Says(Script):
    """Only talks."""

    def generate(self, requests, sampling):
        for request in requests:
            ids = self.tokenizer(text=f"saw {request.index}<eos>", add_special_tokens=False)["input_ids"]
            yield Generated(request.index, tuple(ids), (-0.5,) * len(ids), "stop")


def run(tmp_path, model, processor, script=Script, **more):
    def keep(completions, **columns):
        return [float(place) for place in range(len(completions))]

    options = {"environment_factory": Room, "max_completion_length": 600, "max_steps": 1, "max_unscored_share": None}
    trainer = make_trainer(tmp_path, keep, model=model, tokenizer=processor, rows=ROWS, **options | more)
    writer, written = trainer.source.collector.writer, []
    writer.generator = script(processor.tokenizer)
    write = type(writer).write
    with mock.patch.object(type(writer), "write", lambda *a: written.extend(found := write(*a)) or found):
        trainer.train()
    return trainer, written


@pytest.mark.parametrize(("environment", "script"), [(Room, Script), (Guide, Says)], ids=["tools", "turns"])
def test_a_dialogue_is_what_the_processor_makes_of_the_whole_of_it(family, tmp_path, environment, script):
    model, processor = make_model(family)
    sees = ("vision", "visual", "projector")
    before = {n: p.detach().clone() for n, p in model.named_parameters() if any(word in n for word in sees)}
    trainer, written = run(
        tmp_path, model, processor, script, environment_factory=environment, log_completions=True,
        num_completions_to_print=0,
    )  # fmt: skip
    assert {len(rollout.completion) for rollout in written} == {3, 5}
    schemas = [tool.schema for tool in trainer.agents.environments[0].tools]
    for rollout in written:
        ids = (*rollout.prompt_ids, *rollout.completion_ids)
        whole = processor.apply_chat_template(
            [[*rollout.row.prompt, *rollout.completion]], tools=schemas, tokenize=True, return_dict=True,
            return_tensors="pt",
        )  # fmt: skip
        assert ids == tuple(whole["input_ids"][0].tolist())
        assert rollout.media.inputs
        for name, value in rollout.media.inputs.items():
            assert torch.equal(value.flatten(), whole[name].flatten())  # SmolVLM puts images in the second dimension
        for name, value in rollout.media.by_token.items():
            expected = whole[name][0]
            assert torch.equal(value, expected[: len(value)])
            assert not expected[len(value) :].any()
        marked = [token for token, mark in zip(rollout.completion_ids, rollout.tool_mask, strict=True) if mark]
        assert not {VOCABULARY[token] for token in seeing.SPECIAL} & set(marked)
        assert processor.tokenizer.decode(marked).replace("<eos>", "|").endswith(f"saw {rollout.index}|")
    moved = [name for name, value in before.items() if not torch.equal(value, dict(model.named_parameters())[name])]
    assert moved
    assert torch.isfinite(torch.tensor(trainer.state.log_history[0]["loss"]))
    assert list((tmp_path / "completions").glob("*.parquet"))


def test_decoding_goes_on_after_an_image_that_a_tool_answered(family, tmp_path):
    model, processor = make_model(family)
    trainer, _ = run(tmp_path, model, processor)
    model = trainer.model.eval()
    generator = trainer.source.collector.writer.generator
    asked = [one for one in generator.requests if processor.tokenizer.decode(list(one.prompt_ids)).count("<a>") > 1]
    assert len({len(one.prompt_ids) for one in asked}) > 1
    sampling = SamplingOptions(max_new_tokens=6, temperature=0.0)
    requests = [Request(place, one.prompt_ids, media=one.media) for place, one in enumerate(asked)]
    made = {one.index: one for one in TransformersGenerator(model, processor.tokenizer).generate(requests, sampling)}
    for place, one in enumerate(asked):
        width = len(one.prompt_ids)
        by_token = {n: torch.nn.functional.pad(v, (0, width - len(v)))[None] for n, v in one.media.by_token.items()}
        alone = model.generate(
            torch.tensor([one.prompt_ids]), **one.media.inputs, **by_token, max_new_tokens=6, do_sample=False,
            pad_token_id=0,
        )  # fmt: skip
        expected = alone[0, width:].tolist()
        assert list(made[place].completion_ids) == expected[: len(made[place].completion_ids)]


def test_log_probs_of_dialogues_equal_each_alone(family, tmp_path):
    model, processor = make_model(family, dtype=torch.float64)
    trainer, written = run(tmp_path, model, processor)
    experiences = [Experience(one.prompt_ids, one.completion_ids, one.tool_mask, media=one.media) for one in written]
    scorer = TokenScorer(trainer.model.eval(), temperature=0.9)
    found = scorer(trainer.model, collate(experiences, pad_token_id=0)).logprobs
    for row, one in zip(found, written, strict=True):
        ids = torch.tensor([[*one.prompt_ids, *one.completion_ids]])
        width = ids.shape[1]
        inputs = {n: v.double() if v.is_floating_point() else v for n, v in one.media.inputs.items()}
        inputs |= {n: torch.nn.functional.pad(v, (0, width - len(v)))[None] for n, v in one.media.by_token.items()}
        logits = trainer.model(ids, **inputs).logits[0, len(one.prompt_ids) - 1 : -1] / 0.9
        expected = logits.log_softmax(-1).gather(1, torch.tensor(one.completion_ids)[:, None])[:, 0]
        learnt = torch.tensor(one.tool_mask).bool()
        torch.testing.assert_close(row[: len(expected)][learnt], expected[learnt], rtol=1e-6, atol=1e-6)


def test_a_model_of_text_is_given_no_picture(tmp_path):
    _, processor = make_model("Qwen2-VL")
    reader = processor.tokenizer
    reader.chat_template = processor.chat_template
    chat = tool_chat(reader, {}, [])
    with pytest.raises(UsageError, match="the model's tokenizer sees none"):
        chat.prompt([{"role": "user", "content": [{"type": "image", "image": picture(8, 8)}]}])
    with pytest.raises(UsageError, match="an image block without an image"):
        tool_chat(processor, {}, []).prompt([{"role": "user", "content": [{"type": "image"}]}])


@pytest.mark.parametrize("images", [(1, 0), (0, 1), (1, 2), (0, 0)])
def test_media_of_a_text_and_what_follows(images):
    def media(count, tokens, value):
        if not count:
            return None
        return Media({"pixels": torch.full((count, 3), value)}, {"mm_token_type_ids": torch.full((tokens,), 1)})

    first, second = media(images[0], 4, 1.0), media(images[1], 2, 2.0)
    found = joined(first, 6, second, 2)
    if not any(images):
        assert found is None
        return
    assert found.inputs["pixels"][:, 0].tolist() == [1.0] * images[0] + [2.0] * images[1]
    kinds = found.by_token["mm_token_type_ids"].tolist()
    kinds += [0] * (8 - len(kinds))
    assert kinds == [int(bool(images[0]))] * 4 + [0, 0] + [int(bool(images[1]))] * 2
