"""The training pass as it is run (packed, without idle rows, few logits at a time) beside all rows in full."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from heads import in_float64
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit.grpo import LOSSES, LossOptions, LossScale, policy_loss, reduce_statistics
from plaudit.grpo.batch import Experience, collate
from plaudit.grpo.forward import head_logprobs
from plaudit.grpo.forward.idle_rows import active_stats
from plaudit.grpo.generating.sampler_correction import Correction, SamplerCorrector
from plaudit.grpo.importance import SAMPLER_MODES
from plaudit.grpo.logprobs import TokenScorer, TokenStats
from tiny_policy import make_model

TEMPERATURE = 0.9
OF_RUN_ROWS = {"entropy", "vespo/phi_seq_mean"}
CORRECTIONS = [Correction(mode, 0.3, 3.0, geometric) for mode in SAMPLER_MODES for geometric in (False, True)]
tokens = st.integers(2, 59)


@cache
def model():
    return in_float64(make_model())


def in_full(batch):
    """Log-probs and entropies of all rows, padded, from all logits at once."""
    logits = model()(input_ids=batch.input_ids, use_cache=False).logits.flatten(0, 1)[batch.positions]
    table = (logits / TEMPERATURE).log_softmax(-1)
    columns = table.gather(1, batch.targets[:, None])[:, 0], -(table.exp() * table).sum(-1).detach()
    grid = table.new_zeros(batch.mask.numel())
    return TokenStats(*(grid.index_copy(0, batch.slots, column).view(batch.mask.shape) for column in columns))


@st.composite
def rows(draw):
    """Prompts are shared, or begin alike; completions may be empty, and nothing or little may be learnt of them."""
    longest = tuple(draw(st.lists(tokens, min_size=30, max_size=30)))
    found = [Experience(longest, (7, 8), (1, 1), (-1.0, -2.0))]
    for _ in range(draw(st.integers(0, 6))):
        completion = tuple(draw(st.lists(tokens, max_size=12)))
        pattern = draw(st.sampled_from([(1,), (1,), (0,), (1, 0, 1)]))
        learn = tuple(pattern[place % len(pattern)] for place in range(len(completion)))
        sampled = tuple(-0.25 * (token % 9) for token in completion)
        found.append(Experience(longest[: draw(st.sampled_from([1, 12, 30]))], completion, learn, sampled))
    return found


@st.composite
def micro_batches(draw):
    batch = collate(draw(rows()), pad_token_id=0)
    noise = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    advantages = torch.tensor([draw(st.sampled_from([0.0, 0.0, 1.0, -1.5, 0.3])) for _ in batch.mask])
    if draw(st.booleans()):
        advantages = advantages[:, None] * torch.randint(0, 2, batch.mask.shape, generator=noise)
    old = None
    if draw(st.booleans()):
        old = in_full(batch).logprobs.detach() + 0.3 * torch.randn(batch.mask.shape, generator=noise)
    return replace(batch, advantages=advantages, num_items=float(batch.mask.sum()), old_logprobs=old)


@st.composite
def losses(draw):
    return LossOptions(
        importance_sampling_level=draw(st.sampled_from(["token", "sequence"])),
        epsilon_high=draw(st.sampled_from([0.3, 5.0])),
        delta=draw(st.sampled_from([None, 1.2])),
        off_policy_mask_threshold=draw(st.sampled_from([None, 0.0, 0.1])),
    )


@pytest.mark.parametrize("loss_type", LOSSES)
@settings(max_examples=15, deadline=None)
@given(micro_batches(), losses(), st.sampled_from([None, *CORRECTIONS]), st.sampled_from([1 << 24, 200]))
def test_loss_gradient_and_metrics_are_those_of_all_rows_in_full(loss_type, batch, options, correction, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_logprobs, "MAX_LOGITS", limit)
        lean = active_stats(TokenScorer(model(), temperature=TEMPERATURE), model(), batch)
        results = []
        for stats in (in_full(batch), lean):
            corrector = SamplerCorrector(lambda: correction is None, correction)
            inputs = corrector(batch.loss_inputs(stats.logprobs, stats.entropies, stats.ran), batch)
            scale = LossScale(batch.num_items, 40, accumulation=2, steps_per_generation=2)
            result = policy_loss(inputs, replace(options, loss_type=loss_type), scale)
            gradient = torch.autograd.grad(result.loss, list(model().parameters()))
            results.append((result.loss.item(), reduce_statistics(result.statistics), gradient))
    (loss, metrics, gradient), (loss_2, metrics_2, gradient_2) = results
    assert loss_2 == pytest.approx(loss, rel=1e-12, abs=1e-12)
    norm = torch.cat([part.flatten() for part in gradient]).norm()
    for one, other in zip(gradient, gradient_2, strict=True):
        assert (one - other).norm() <= 1e-12 * max(norm, 1e-3)
    for name in metrics.keys() - OF_RUN_ROWS:
        assert metrics_2[name] == pytest.approx(metrics[name], rel=1e-6, abs=1e-9, nan_ok=True), name
