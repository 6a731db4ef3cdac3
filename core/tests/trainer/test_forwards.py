"""How often the policy is run, and on what: no forward for log-probs that are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from side_by_side import Injected

from runs import make_model, make_trainer, metrics_of

# Micro-batches of two optimizer steps over one generation batch.
TWICE = {"num_iterations": 2, "max_steps": 2}


def varied(completions, **kwargs):
    """No row of advantage 0."""
    return [float(place % 2) for place in range(len(completions))]


def calls_of_training(trainer):
    """Train, and say for each call of the model by the trainer whether it kept gradients."""
    calls = []
    scorer = trainer.token_scorer
    original = type(scorer).__call__

    def counted(self, model, batch, **more):
        calls.append(torch.is_grad_enabled())
        return original(self, model, batch, **more)

    type(scorer).__call__ = counted
    try:
        trainer.train()
    finally:
        type(scorer).__call__ = original
    return calls


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_steps": 2}, [True, True]),
        (TWICE, [True, True]),
        ({**TWICE, "top_k": 20}, [False, True, True]),
        ({**TWICE, "repetition_penalty": 1.2}, [False, True, True]),
        ({**TWICE, "bf16": True}, [False, True, True]),
        ({"per_device_train_batch_size": 4, "steps_per_generation": 2, "max_steps": 2}, [True, True]),
        ({"beta": 0.1, "max_steps": 1}, [False, True]),
    ],
)
def test_old_logprobs_cost_a_forward_only_where_the_sampler_does_not_know_them(options, expected, tmp_path):
    assert calls_of_training(make_trainer(tmp_path, varied, **options)) == expected


def test_a_generator_that_is_not_the_policy_is_not_believed(tmp_path):
    trainer = make_trainer(tmp_path, varied, max_completion_length=10, **TWICE)
    writer = replace(trainer.source.collector.writer, generator=Injected())
    trainer.source.collector = replace(trainer.source.collector, writer=writer)
    assert calls_of_training(trainer) == [False, True, True]


def test_half_precision_weights_are_not_believed(tmp_path):
    trainer = make_trainer(tmp_path, varied, model=make_model(dtype=torch.bfloat16), bf16=False, **TWICE)
    assert calls_of_training(trainer) == [False, True, True]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_samplers_logprobs_train_as_computed_ones_do(temperature, tmp_path, monkeypatch):
    found = []
    for believed in (True, False):
        trainer = make_trainer(
            tmp_path / str(believed), varied, num_iterations=3, max_steps=6, temperature=temperature, epsilon=0.05
        )
        if not believed:
            monkeypatch.setattr("plaudit.grpo.trainer.sampler_is_policy", lambda *_: False)
        trainer.train()
        logs = [line for line in metrics_of(tmp_path / str(believed)) if "loss" in line]
        found.append((list(trainer.model.parameters()), logs))
    (one, logs), (other, logs_2) = found
    assert any(line["clip_ratio/region_mean"] > 0 for line in logs)
    for name in ("loss", "entropy", "grad_norm", "clip_ratio/region_mean"):
        assert [line[name] for line in logs] == pytest.approx([line[name] for line in logs_2], rel=1e-4, abs=1e-5)
    for first, second in zip(one, other, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)
