"""Rows that nothing is learnt from are not run, and change nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from plaudit.grpo import LOSSES, LossOptions, LossScale, policy_loss, reduce_statistics
from plaudit.grpo.batch import Experience, collate
from plaudit.grpo.forward.idle_rows import active_stats, skipped_rows, teaches_without_advantage
from plaudit.grpo.logprobs import TokenScorer

from runs import make_trainer, metrics_of

ROWS = [
    Experience((5, 6, 7), (8, 9, 1), (1, 1, 1)),
    Experience((5,), (10, 11, 12, 13, 1), (1, 1, 0, 1, 1)),
    Experience((5, 6, 7, 8), (30,), (1,)),
    Experience((9, 9), (7, 7, 1), (1, 1, 1)),
    Experience((9, 9), (7, 7, 7), (0, 0, 0)),
]
ADVANTAGES = [
    [0.5, 0.0, -1.0, 0.0, 0.0],
    [0.0] * 5,
    [1.0, 2.0, 3.0, -4.0, 1.0],
    [0.0, 0.0, 0.0, 2.0, 0.0],
    [0.0, 0.0, 0.0, 0.0, 3.0],
]
# Over the rows that ran; all others are over all rows.
OF_RUN_ROWS = {"entropy", "vespo/phi_seq_mean"}


@pytest.mark.parametrize("advantages", ADVANTAGES)
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("loss_type", LOSSES)
def test_loss_gradient_and_metrics_are_those_of_all_rows(loss_type, old, advantages, build_model):
    model = build_model(dtype=torch.float64)
    scorer = TokenScorer(model, temperature=1.0)
    batch = replace(collate(ROWS, pad_token_id=0), advantages=torch.tensor(advantages), num_items=11.0)
    if old:
        noise = torch.randn(batch.mask.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        batch = replace(batch, old_logprobs=scorer(model, batch).logprobs.detach() + 0.3 * noise)
    options = LossOptions(loss_type=loss_type, epsilon_high=0.3, off_policy_mask_threshold=0.1)
    results = []
    for stats in (scorer(model, batch, entropies="metric"), active_stats(scorer, model, batch)):
        scale = LossScale(batch.num_items, 8, accumulation=2, steps_per_generation=2)
        result = policy_loss(batch.loss_inputs(stats.logprobs, stats.entropies, stats.ran), options, scale)
        gradient = torch.autograd.grad(result.loss, list(model.parameters()))
        results.append((result.loss.item(), reduce_statistics(result.statistics), gradient))
    (loss, metrics, gradient), (loss_2, metrics_2, gradient_2) = results
    assert loss_2 == pytest.approx(loss, rel=1e-12, abs=1e-14)
    assert metrics.keys() == metrics_2.keys()
    for name in metrics.keys() - OF_RUN_ROWS:
        assert metrics_2[name] == pytest.approx(metrics[name], rel=1e-9, abs=1e-12, nan_ok=True), name
    for one, other in zip(gradient, gradient_2, strict=True):
        assert (one - other).norm() <= 1e-12 * max(one.norm(), 1e-3)


def test_the_entropy_is_that_of_the_rows_that_ran(build_model):
    model = build_model(dtype=torch.float64)
    scorer = TokenScorer(model, temperature=1.0)
    for advantages in ADVANTAGES:
        batch = replace(collate(ROWS, pad_token_id=0), advantages=torch.tensor(advantages))
        stats = active_stats(scorer, model, batch)
        result = policy_loss(batch.loss_inputs(stats.logprobs, stats.entropies, stats.ran), LossOptions(), SCALE)
        ran = (batch.advantages != 0) & (batch.mask.sum(1) > 0)
        all_entropies = scorer(model, batch, entropies="metric").entropies
        expected = all_entropies[ran][batch.mask[ran] > 0].mean()
        found = reduce_statistics(result.statistics | {"skipped_rows": skipped_rows(stats)})
        assert found["entropy"] == pytest.approx(expected.item(), nan_ok=True)
        assert found["skipped_rows"] == pytest.approx(1 - ran.float().mean().item())


SCALE = LossScale(11.0, 8)


@pytest.mark.parametrize(
    ("advantages", "shape"),
    [([0.0, 0.0, 1.0, 0.0, 0.0], (1, 5)), ([0.0] * 5, (1, 1)), ([1.0, 1.0, 0.0, 0.0, 1.0], (2, 5))],
)
def test_only_active_rows_are_run_in_one_call(advantages, shape, build_model):
    model = build_model()
    scorer = TokenScorer(model, temperature=1.0)
    batch = replace(collate(ROWS, pad_token_id=0), advantages=torch.tensor(advantages))
    shapes = shapes_of_calls(model)
    active_stats(scorer, model, batch)
    assert shapes == [shape]


def shapes_of_calls(model):
    """A list that the shape of the input ids of every later call of the model is added to."""
    shapes = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return shapes


@pytest.mark.parametrize(
    ("options", "teaches"),
    [({}, False), ({"beta": 0.1}, True), ({"entropy_bonus": True}, True), ({"top_entropy_quantile": 0.5}, True)],
)
def test_kl_bonus_and_entropy_quantile_need_every_row(options, teaches):
    assert teaches_without_advantage(LossOptions(**options)) == teaches


def test_a_run_without_spread_runs_single_tokens_and_decays_weights_as_ever(tmp_path):
    """Adam still moves on by its momentum and its weight decay."""

    def once(completions, trainer_state, **kwargs):
        varied = trainer_state.global_step == 0
        return [float(place % 2) if varied else 1.0 for place in range(len(completions))]

    weights = []
    for skipping in (True, False):
        trainer = make_trainer(tmp_path / str(skipping), once, max_steps=3, weight_decay=0.1)
        trainer.skips_idle_rows = skipping
        shapes = shapes_of_calls(trainer.model) if skipping else []
        trainer.train()
        weights.append([parameter.detach().clone() for parameter in trainer.model.parameters()])
        assert ((1, 1) in shapes) == skipping
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert [line["skipped_rows"] for line in metrics_of(tmp_path / "True") if "loss" in line] == [0.0, 1.0, 1.0]
    assert [line["entropy"] is None for line in metrics_of(tmp_path / "True") if "loss" in line] == [False, True, True]
