"""An engine whose log-probs are not the policy's: the loss and its metrics beside TRL's correction for vLLM."""

from __future__ import annotations

import math
import random
import warnings
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import plaudit.grpo.trainer
import pytest
import side_by_side
import torch
from plaudit.errors import UsageError
from plaudit.grpo import LossOptions, LossScale, policy_loss, reduce_statistics
from plaudit.grpo.batch import Experience, collate
from plaudit.grpo.generating.sampler_correction import Correction, SamplerCorrector
from plaudit.grpo.logprobs import TokenScorer
from plaudit.rollout.protocol import Generated
from side_by_side import completion, differences, run_plaudit, run_trl, use_generator

from runs import make_trainer


def perturbed(model, prompt, ids, call, place):
    """Log-probs a little off those of the policy; now and then none at all."""
    noise = random.Random(call * 1000 + place)
    with torch.no_grad():
        table = model(torch.tensor([[*prompt, *ids]])).logits[0].log_softmax(-1)
    found = [table[len(prompt) - 1 + at, token].item() + noise.gauss(0, 0.3) for at, token in enumerate(ids)]
    return [math.nan if noise.random() < 0.05 else value for value in found]


class Inexact(side_by_side.Injected):
    """Writes the injected completions with log-probs that are off."""

    exact = False

    def __init__(self, model, silent=False):
        super().__init__()
        self.model, self.silent = model, silent

    def generate(self, requests, sampling):
        prompts = {request.index: request.prompt_ids for request in requests}
        for made in super().generate(requests, sampling):
            ids = made.completion_ids
            logprobs = perturbed(self.model, prompts[made.index], ids, self.calls, made.index)
            yield Generated(made.index, ids, None if self.silent else tuple(logprobs), made.finish_reason)


def inject(trainer):
    if hasattr(trainer, "source"):
        return use_generator(trainer, Inexact(trainer.model))
    calls = iter(range(1000))

    def single_turn(prompt_ids, *args, **kwargs):
        call = next(calls)
        made = [completion(call, place) for place in range(len(prompt_ids))]
        found = [
            perturbed(trainer.model, prompt, ids, call, place)
            for place, (prompt, ids) in enumerate(zip(prompt_ids, made, strict=True))
        ]
        return made, [[None if math.isnan(value) else value for value in row] for row in found]

    trainer._generate_single_turn = single_turn
    return None


SPLIT = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
GRID = {
    "default": {},
    "token-truncate": {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_min": 0.8},
    "token-mask": {
        "vllm_importance_sampling_mode": "token_mask",
        "vllm_importance_sampling_clip_min": 0.7,
        "vllm_importance_sampling_clip_max": 1.3,
        "loss_type": "grpo",
    },
    "sequence-truncate": {
        "vllm_importance_sampling_mode": "sequence_truncate",
        "vllm_importance_sampling_clip_max": 1.2,
        "beta": 0.04,
        **SPLIT,
    },
    "sequence-mask": {"vllm_importance_sampling_clip_max": 1.1, "vllm_importance_sampling_clip_min": 0.9, **SPLIT},
    "several-steps": {"num_iterations": 2, "loss_type": "luspo", "importance_sampling_level": "sequence"},
    "vespo": {
        "loss_type": "vespo",
        "vllm_importance_sampling_mode": "token_truncate",
        "num_iterations": 2,
        "max_steps": 2,
    },
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0, "vllm_importance_sampling_mode": "token_mask"},
    "off-policy": {"off_policy_mask_threshold": 0.05, "num_iterations": 2},
    "no-correction": {"vllm_importance_sampling_correction": False, "off_policy_mask_threshold": 0.05},
    "truncated": {"mask_truncated_completions": True, "loss_type": "grpo", "num_iterations": 2},
    "entropy": {"entropy_coef": 0.02, "top_entropy_quantile": 0.4, "max_steps": 2},
}
QUICK = {"default", "token-mask", "sequence-truncate", "vespo", "off-policy", "no-correction"}


@pytest.mark.peer
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in GRID])
def test_training_equals_trl(name, tmp_path, build_model, build_tokenizer):
    build_model(dtype=torch.float64).save_pretrained(tmp_path / "model")
    options = {"model_init_kwargs": {"dtype": "auto"}, **GRID[name]}
    with warnings.catch_warnings(), mock.patch.object(side_by_side, "inject", inject):
        warnings.simplefilter("ignore")
        with mock.patch("trl.trainer.grpo_trainer.VLLMGeneration"):
            theirs = run_trl(str(tmp_path / "model"), build_tokenizer(), tmp_path / "trl", use_vllm=True, **options)
        with every_row_run():
            ours = run_plaudit(str(tmp_path / "model"), build_tokenizer(), tmp_path / "ours", **options)
    assert len(theirs.logs) == len(ours.logs) >= 2
    problems = [differences(one, other) for one, other in zip(theirs.logs, ours.logs, strict=True)]
    assert not any(problems), problems
    corrected = GRID[name].get("vllm_importance_sampling_correction", True)
    assert ("sampling/importance_sampling_ratio/mean" in ours.logs[0]) == corrected
    for parameter, value in theirs.weights.items():
        torch.testing.assert_close(ours.weights[parameter], value, rtol=1e-5, atol=1e-5 * value.abs().max().item())


def every_row_run():
    """TRL's metrics are over all rows, also those that teach nothing."""
    return mock.patch.object(plaudit.grpo.trainer, "teaches_without_advantage", return_value=True)


ROWS = [
    Experience((5, 6), (8, 9, 10, 1), (1, 1, 1, 1), (-1.0, -2.0, math.nan, -0.5)),
    Experience((5,), (11, 12, 1), (1, 0, 1), (-1.5, -9.0, -2.5)),
    Experience((7, 7, 7), (13,), (1,), (-3.0,)),
]
OLD = torch.tensor([[-1.2, -1.9, -1.0, -0.7], [-1.0, -1.0, -2.9, 0.0], [-2.0, 0.0, 0.0, 0.0]])


def corrected(corrector, *, ran=None, old=None, rows=ROWS, logp=OLD):
    batch = replace(collate(rows, pad_token_id=0), old_logprobs=old, advantages=torch.tensor([1.0, -1.0, 0.5]))
    return corrector(batch.loss_inputs(logp, None, ran), batch)


def source_at(position, steps=1, iterations=1):
    return SimpleNamespace(
        position=position, schedule=SimpleNamespace(steps_per_generation=steps, num_iterations=iterations)
    )


@pytest.mark.parametrize("old", [None, OLD + 0.1])
def test_ratios_are_of_the_log_probs_when_the_batch_was_written(old):
    found = corrected(SamplerCorrector(lambda: False, Correction("token_truncate", None, 3.0)), old=old)
    shift = 0.0 if old is None else 0.1
    gaps = [[-0.2, 0.1, None, -0.2], [0.5, None, -0.4, None], [1.0, None, None, None]]
    expected = [[1.0 if gap is None else min(math.exp(gap + shift), 3.0) for gap in row] for row in gaps]
    torch.testing.assert_close(found.sampler_ratio, torch.tensor(expected))


def test_a_long_completion_keeps_its_weight_with_the_geometric_mean():
    rows = [Experience((5,), (8,) * 100, (1,) * 100, (-1.012,) * 100)]
    logp = torch.full((1, 100), -1.0)
    for geometric, expected in ((False, 0.0), (True, math.exp(0.012))):
        corrector = SamplerCorrector(lambda: False, Correction("sequence_mask", None, 3.0, geometric))
        batch = collate(rows, pad_token_id=0)
        found = corrector(batch.loss_inputs(logp, None), batch)
        assert found.sampler_ratio.item() == pytest.approx(expected, rel=1e-4)


def test_rows_that_were_not_run_have_ratio_one_and_no_metrics():
    corrector = SamplerCorrector(lambda: False, Correction("sequence_truncate", None, 3.0))
    ran = torch.tensor([True, False, False])
    found = corrected(corrector, ran=ran, logp=OLD * ran[:, None])
    assert found.sampler_ratio.flatten().tolist() == pytest.approx([math.exp(-0.3), 1.0, 1.0])
    metrics = reduce_statistics(corrector.take("train", source_at(1)))
    prefix = "sampling/importance_sampling_ratio"
    assert [metrics[f"{prefix}/{name}"] for name in ("min", "mean", "max")] == pytest.approx([math.exp(-0.3)] * 3)
    assert metrics["sampling/sampling_logp_difference/mean"] == pytest.approx(0.5 / 3)


def test_metrics_are_of_the_whole_generation_batch_once():
    correction = Correction("token_mask", None, 1.5)
    whole, parts = (SamplerCorrector(lambda: False, correction) for _ in range(2))
    corrected(whole)
    expected = reduce_statistics(whole.take("train", source_at(1)))
    for place, row in enumerate(ROWS):
        assert parts.take("train", source_at(place, steps=3)) == {} or place == 0
        batch = collate([row], pad_token_id=0)
        parts(batch.loss_inputs(OLD[place : place + 1, : batch.mask.shape[1]], None), batch)
    found = reduce_statistics(parts.take("train", source_at(3, steps=3, iterations=2)))
    assert found == pytest.approx(expected)
    corrected(parts)
    assert parts.take("train", source_at(6, steps=3, iterations=2)) == {}


def test_an_exact_sampler_is_left_alone_and_a_silent_one_is_named():
    assert corrected(SamplerCorrector(lambda: True, Correction("token_mask", None, 3.0))).sampler_ratio is None
    without = corrected(SamplerCorrector(lambda: False))
    assert without.sampler_ratio is None
    assert without.sampled is not None
    silent = [replace(row, logprobs=None) for row in ROWS]
    with pytest.raises(UsageError, match=r"reports no log-probs.*vllm_importance_sampling_correction=False"):
        corrected(SamplerCorrector(lambda: False, Correction("token_mask", None, 3.0)), rows=silent)


def test_no_second_forward_when_on_policy(tmp_path, build_model):
    model = build_model()
    trainer = make_trainer(tmp_path, model=model, max_steps=2, max_completion_length=10)
    use_generator(trainer, Inexact(model))
    calls = []
    with mock.patch.object(TokenScorer, "__call__", autospec=True, side_effect=TokenScorer.__call__) as scored:
        trainer.train()
        calls.append(scored.call_count)
    assert calls == [2]
    assert "sampling/sampling_logp_difference/mean" in trainer.state.log_history[0]


def test_vespo_takes_the_ratio_into_its_weight():
    corrector = SamplerCorrector(lambda: False, Correction("token_truncate", None, 2.0))
    found = corrected(corrector)
    scale = LossScale(8.0, 4)
    with_ratio = policy_loss(found, LossOptions(loss_type="vespo"), scale).statistics["vespo/phi_seq_mean"]
    without = policy_loss(replace(found, sampler_ratio=None), LossOptions(loss_type="vespo"), scale)
    assert with_ratio.value != without.statistics["vespo/phi_seq_mean"].value
