"""Rows of advantage 0 cost no backward pass and change nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from plaudit.grpo import LOSSES, LossOptions, LossScale, policy_loss, reduce_statistics
from plaudit.grpo.batch import Experience, collate
from plaudit.grpo.idle_rows import active_stats, teaches_without_advantage
from plaudit.grpo.logprobs import TokenScorer

ROWS = [
    Experience((5, 6, 7), (8, 9, 1), (1, 1, 1)),
    Experience((5,), (10, 11, 12, 13, 1), (1, 1, 0, 1, 1)),
    Experience((5, 6, 7, 8), (30,), (1,)),
    Experience((9, 9), (7, 7, 1), (1, 1, 1)),
]


@pytest.mark.parametrize("advantages", [[0.5, 0.0, -1.0, 0.0], [0.0] * 4, [1.0, 2.0, 3.0, -4.0], [0.0, 0.0, 0.0, 2.0]])
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
        result = policy_loss(batch.loss_inputs(stats.logprobs, stats.entropies), options, scale)
        gradient = torch.autograd.grad(result.loss, list(model.parameters()))
        results.append((result.loss.item(), reduce_statistics(result.statistics), gradient))
    (loss, metrics, gradient), (loss_2, metrics_2, gradient_2) = results
    assert loss_2 == pytest.approx(loss, rel=1e-12, abs=1e-14)
    assert metrics_2 == pytest.approx(metrics, rel=1e-9, abs=1e-12, nan_ok=True)
    for one, other in zip(gradient, gradient_2, strict=True):
        assert (one - other).norm() <= 1e-12 * max(one.norm(), 1e-3)


def test_only_active_rows_are_run_with_gradient(build_model):
    model = build_model()
    scorer = TokenScorer(model, temperature=1.0)
    batch = replace(collate(ROWS, pad_token_id=0), advantages=torch.tensor([0.0, 0.0, 1.0, 0.0]))
    sizes = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append((len(kwargs["input_ids"]), torch.is_grad_enabled())), with_kwargs=True
    )
    active_stats(scorer, model, batch)
    assert sizes == [(1, True), (3, False)]


@pytest.mark.parametrize(("options", "teaches"), [({}, False), ({"beta": 0.1}, True), ({"entropy_bonus": True}, True)])
def test_kl_and_entropy_bonus_need_every_row(options, teaches):
    assert teaches_without_advantage(LossOptions(**options)) == teaches
