"""Training with each generator that runs the policy in this process, chosen by the configuration."""

from __future__ import annotations

import math

import pytest
from plaudit import UsageError
from plaudit.grpo.policy.seeing import SeeingCodec
from plaudit.grpo.rows.prompts import as_row
from plaudit.rollout.continuous_batching import ContinuousBatchingGenerator
from plaudit.rollout.protocol import Request, SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator
from seeing import FAMILIES, make_seeing, rows

from runs import make_trainer, metrics_of

PAGED = {"num_blocks": 32, "page_size": 16, "max_batch_tokens": 64}


def test_continuous_batching_trains_and_its_mismatch_is_measured(tmp_path):
    options = {"use_transformers_continuous_batching": True, "transformers_continuous_batching_config": PAGED}
    trainer = make_trainer(tmp_path, **options)
    assert isinstance(trainer.source.collector.writer.generator, ContinuousBatchingGenerator)
    before = trainer.model.lm_head.weight.detach().clone()
    trainer.train()
    assert trainer.model.training
    assert not before.equal(trainer.model.lm_head.weight)
    for line in metrics_of(tmp_path)[:2]:
        assert math.isfinite(line["loss"])
        assert line["sampling/sampling_logp_difference/max"] < 1e-3


def test_cache_and_room_are_passed_on_and_give_the_same_run(tmp_path):
    found = []
    for number, options in enumerate([{}, {"max_cache_tokens": 30}, {"cache_implementation": "static"}]):
        trainer = make_trainer(tmp_path / str(number), max_steps=1, **options)
        trainer.train()
        found.append(metrics_of(tmp_path / str(number))[0])
    for line in found[1:]:
        assert line["completions/mean_length"] == found[0]["completions/mean_length"]
        assert line["loss"] == pytest.approx(found[0]["loss"], abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_images_are_seen_with_static_shapes_too(family):
    model, processor = make_seeing(family)
    records = [as_row(record) for record in [*rows(3), *rows(1, images=2)]]
    prompts = SeeingCodec(processor.tokenizer, {}, None, processor).prepare(records)
    requests = [Request(n, prompts[n // 2].ids, media=prompts[n // 2].media) for n in range(2 * len(prompts))]
    found = []
    for cache in ("dynamic", "static"):
        generator = TransformersGenerator(model, processor.tokenizer, cache_implementation=cache)
        made = generator.generate(requests, SamplingOptions(max_new_tokens=8, temperature=0.0))
        found.append({one.index: one.completion_ids for one in made})
    assert found[0] == found[1]
    assert len(set(found[0].values())) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_transformers_continuous_batching": True, "top_p": 0.9}, "correction=False"),
        ({"use_transformers_continuous_batching": True, "min_p": 0.1}, "has no min_p"),
        ({"use_transformers_continuous_batching": True, "cache_implementation": "static"}, "a cache of its own"),
        ({"transformers_continuous_batching_config": {"page_size": 16}}, "is off"),
        ({"use_transformers_continuous_batching": True, "max_cache_tokens": 9}, "max_cache_tokens=9 would be ignored"),
        ({"use_transformers_continuous_batching": True, "compile_decoding": True}, "compile_decoding=True would be"),
        (
            {"compile_decoding": True, "cache_implementation": "dynamic"},
            "cache_implementation is 'dynamic'; set 'static'",
        ),
        ({"compile_decoding": True, "cache_implementation": "quantized"}, "needs static shapes"),
        ({"compile_decoding": True, "use_vllm": True}, "compile_decoding=True would be ignored"),
        ({"cache_implementation": "quantized"}, "pip install optimum-quanto"),
        ({"cache_implementation": "offloaded"}, "one of dynamic, static, quantized"),
        ({"max_cache_tokens": 0}, "at least 1"),
        ({"use_vllm": True, "cache_implementation": "static"}, "would be ignored"),
        ({"generation_kwargs": {"structured_outputs": {"regexp": "a"}}}, "did you mean 'regex'"),
        ({"generation_kwargs": {"structured_outputs": {"regex": "(a"}}}, "unclosed group"),
        ({"generation_kwargs": {"top_k": "5"}}, "top_k is '5'; it must be a whole number"),
        ({"dynamic_sampling": True, "dynamic_sampling_max_rounds": 0}, "at least 1"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_before_a_model_is_touched(tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        make_trainer(tmp_path, model="no/such-model", **options)
