"""Vision-language models: images in prompts, decoding, log-probs and training."""

from __future__ import annotations

import warnings

import pytest
import torch
from plaudit.grpo.batch import Experience, MicroBatch, collate
from plaudit.grpo.logprobs import TokenScorer
from plaudit.grpo.policy.images import images_in
from plaudit.grpo.policy.seeing import SeeingCodec
from plaudit.grpo.rows.prompts import as_row
from plaudit.rollout.protocol import Request, SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator
from seeing import FAMILIES, make_seeing, rows

from runs import make_trainer, metrics_of


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def prepared(processor, records):
    codec = SeeingCodec(processor.tokenizer, {}, None, processor)
    return codec.prepare([as_row(record) for record in records])


def mixed():
    """Prompts with pictures of several sizes, with two of them, and with none."""
    text = [{"prompt": [{"role": "user", "content": "and you?"}]}]
    return [*rows(3), *rows(1, images=2), *text]


def test_decoding_equals_generate(family):
    model, processor = make_seeing(family)
    prompts = prepared(processor, mixed())
    requests = [Request(n, prompts[n // 2].ids, media=prompts[n // 2].media) for n in range(2 * len(prompts))]
    sampling = SamplingOptions(max_new_tokens=8, temperature=0.0)
    made = {
        one.index: one.completion_ids
        for one in TransformersGenerator(model, processor.tokenizer).generate(requests, sampling)
    }
    for place, prompt in enumerate(prompts):
        media = prompt.media
        inputs = {} if media is None else {**media.inputs, **{n: v[None] for n, v in media.by_token.items()}}
        alone = model.generate(torch.tensor([prompt.ids]), **inputs, max_new_tokens=8, do_sample=False, pad_token_id=0)
        expected = alone[0, len(prompt.ids) :].tolist()
        assert list(made[2 * place]) == expected[: len(made[2 * place])]
        assert made[2 * place] == made[2 * place + 1]
    assert len(set(made.values())) > 1


def test_log_probs_equal_each_row_alone(family):
    model, processor = make_seeing(family, dtype=torch.float64)
    prompts = prepared(processor, mixed())
    completions = [(20, 21, 22, 1), (30,), (31, 32), (40, 41, 1), (25, 26, 27)]
    experiences = [
        Experience(prompt.ids, ids, (1,) * len(ids), media=prompt.media)
        for prompt, ids in zip(prompts, completions, strict=True)
    ]
    scorer = TokenScorer(model, temperature=0.9)
    batch = collate(experiences, pad_token_id=0)
    found = scorer(model, batch, entropies="metric").logprobs
    for place, (experience, prompt) in enumerate(zip(experiences, prompts, strict=True)):
        ids = torch.tensor([[*experience.prompt_ids, *experience.completion_ids]])
        inputs = {} if prompt.media is None else alone_inputs(prompt, ids.shape[1])
        logits = model(ids, **inputs).logits[0, len(prompt.ids) - 1 : -1] / 0.9
        expected = logits.log_softmax(-1).gather(1, ids[0, len(prompt.ids) :, None])[:, 0]
        torch.testing.assert_close(found[place, : len(expected)], expected, rtol=1e-6, atol=1e-6)
    chosen = scorer(model, batch.select(torch.tensor([1, 3]))).logprobs
    torch.testing.assert_close(chosen[0], found[1, : chosen.shape[1]], rtol=1e-6, atol=1e-6)


def alone_inputs(prompt, width):
    by_token = {
        name: torch.nn.functional.pad(value, (0, width - len(value)))[None]
        for name, value in prompt.media.by_token.items()
    }
    inputs = {n: v.double() if v.is_floating_point() else v for n, v in prompt.media.inputs.items()}
    return inputs | by_token


def test_training(family, tmp_path):
    model, processor = make_seeing(family)
    vision = {n: p.detach().clone() for n, p in model.named_parameters() if "vision" in n or "visual" in n}
    seen = []

    def watch(prompts, completions, **columns):
        seen.append((prompts, columns))
        return [float(len(completion[0]["content"]) % 5) for completion in completions]

    options = {"beta": 0.1, "num_iterations": 2, "log_completions": True, "num_completions_to_print": 0, "max_steps": 3}
    trainer = make_trainer(tmp_path, watch, model=model, tokenizer=processor, rows=rows(), **options)
    trainer.train()
    prompts, columns = seen[0]
    assert prompts[0][0]["content"][0]["type"] == "image"
    number = int(columns["answer"][0])
    assert prompts[0][0]["content"][1] == {"type": "text", "text": f"what {'is' * (number % 2)} {number}?"}
    assert images_in(prompts[0])[0].size == columns["image"][0].size
    moved = [n for n, before in vision.items() if not torch.equal(before, dict(model.named_parameters())[n])]
    assert vision
    assert moved
    assert "loss" in metrics_of(tmp_path)[0]
    assert list((tmp_path / "completions").glob("train_*.parquet"))


@pytest.mark.slow
def test_adapters_accumulation_and_rows_without_images(family, tmp_path):
    from peft import LoraConfig

    model, processor = make_seeing(family)
    records = [*rows(2), {"prompt": [{"role": "user", "content": "and you?"}], "image": None, "answer": "x"}, *rows(1)]
    adapter = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    options = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "gradient_checkpointing": True}
    trainer = make_trainer(
        tmp_path, constant_now_and_then, model=model, tokenizer=processor, rows=records, peft_config=adapter, **options
    )
    trainer.train()
    assert any(p.abs().max() > 0 for n, p in trainer.model.named_parameters() if "lora_B" in n)


def constant_now_and_then(completions, answer, **columns):
    return [0.0 if a == "0" else float(len(c[0]["content"]) % 3) for c, a in zip(completions, answer, strict=True)]


def test_the_policy_never_writes_an_image(family):
    from plaudit.grpo.policy.seeing import without_image_tokens

    model, _ = make_seeing(family)
    options = without_image_tokens(SamplingOptions(), model)
    assert options.generation_kwargs["suppress_tokens"] == [model.config.image_token_id]
    kept = without_image_tokens(SamplingOptions(generation_kwargs={"suppress_tokens": [7]}), model)
    assert kept.generation_kwargs == {"suppress_tokens": [7]}


def test_a_resumed_run_keeps_its_images(tmp_path):
    options = {"max_steps": 4, "num_iterations": 2, "per_device_train_batch_size": 4, "steps_per_generation": 2}
    options |= {"save_strategy": "steps", "save_steps": 1}

    def build():
        model, processor = make_seeing("Qwen2-VL")
        return make_trainer(tmp_path, constant_now_and_then, model=model, tokenizer=processor, rows=rows(), **options)

    whole = build()
    whole.train()
    rest = build()
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    for one, other in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_micro_batch_with_images_survives_saving(tmp_path):
    _, processor = make_seeing("SmolVLM2")
    batch = collate(
        [Experience(p.ids, (5, 6), (1, 1), media=p.media) for p in prepared(processor, mixed())], pad_token_id=0
    )
    torch.save(batch.state_dict(), tmp_path / "batch")
    again = MicroBatch.from_state(torch.load(tmp_path / "batch", weights_only=True))
    before, after = batch.seen(torch.float32), again.seen(torch.float32)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("logged", [True, False])
def test_images_go_to_the_trackers_and_not_into_files(logged, tmp_path, monkeypatch):
    import pyarrow.parquet as pq
    from plaudit.grpo.reporting import table_sinks

    shown = []
    monkeypatch.setitem(table_sinks._TRACKERS, "wandb", lambda columns, mode, step: shown.append(columns))
    model, processor = make_seeing("Qwen2-VL")
    options = {"log_completions": True, "num_completions_to_print": 1, "max_steps": 1, "log_multimodal": logged}
    trainer = make_trainer(tmp_path, watchless, model=model, tokenizer=processor, rows=rows(), **options)
    trainer.run_log.completions.sinks = (table_sinks._TRACKERS["wandb"],)
    trainer.train()
    (columns,) = shown
    assert ("images" in columns) == logged
    if logged:
        assert [len(images) for images in columns["images"]] == [1] * 8
        assert all(images[0].size in {(20, 28), (32, 20), (44, 28), (20, 20)} for images in columns["images"])
    (row, *_) = pq.read_table(tmp_path / "completions" / "train_00001.parquet").to_pylist()
    assert "images" not in row
    assert row["prompt"][0]["content"][0]["type"] == "image"
    assert not row["prompt"][0]["content"][0].get("image")


def look(place: int) -> str:
    """Look closer.

    Args:
        place: where
    """
    return str(place)


def watchless(completions, **columns):
    return [0.0] * len(completions)


@pytest.mark.peer
@pytest.mark.slow
def test_training_equals_trl(family, tmp_path):
    from side_by_side import differences, run_plaudit, run_trl

    # TRL hands float32 images to the model as they are, which only Qwen turns into what it computes in.
    exact = family.startswith("Qwen")
    model, processor = make_seeing(family, dtype=torch.float64 if exact else torch.float32)
    model.save_pretrained(tmp_path / "model")
    options = {"num_iterations": 2, "max_steps": 3, "beta": 0.1, "rows": rows(12)}
    options |= {"model_init_kwargs": {"dtype": "auto"}, "optim": "sgd", "learning_rate": 0.05}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = run_trl(str(tmp_path / "model"), processor, tmp_path / "trl", **options)
        ours = run_plaudit(str(tmp_path / "model"), processor, tmp_path / "ours", **options)
    for one, other in zip(theirs.logs, ours.logs, strict=True):
        if exact:
            assert differences(one, other) == {}
        for name in ("loss", "grad_norm", "entropy", "kl"):
            assert other[name] == pytest.approx(one[name], rel=1e-3, abs=1e-4)
    for parameter, value in theirs.weights.items():
        scale = value.abs().max().item()
        torch.testing.assert_close(ours.weights[parameter], value, rtol=1e-5, atol=1e-5 * scale)
