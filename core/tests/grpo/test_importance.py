"""The sampler's importance ratio in its four modes, beside a derivation in plain Python."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit.grpo import reduce_statistics, sampler_ratio, sampler_statistics

TOKENS = 4
BOUNDS = st.sampled_from([(None, 3.0), (0.5, 2.0), (0.5, None), (None, None)])
values = st.lists(st.floats(-1.5, 1.5), min_size=TOKENS, max_size=TOKENS)
sampled_values = st.lists(st.floats(-1.5, 1.5) | st.just(math.nan), min_size=TOKENS, max_size=TOKENS)
masks = st.lists(st.integers(0, 1), min_size=TOKENS, max_size=TOKENS)


def bounded(ratio, action, low, high):
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if action == "truncate":
        return min(max(ratio, low), high)
    return ratio if low <= ratio <= high else 0.0


@settings(max_examples=150, deadline=None)
@given(
    values, sampled_values, masks, BOUNDS, st.sampled_from(["token", "sequence"]), st.sampled_from(["truncate", "mask"])
)
def test_ratio(old, sampled, mask, bounds, level, action):
    gaps = [0.0 if math.isnan(s) else (o - s) * m for o, s, m in zip(old, sampled, mask, strict=True)]
    raw = [math.exp(sum(gaps))] if level == "sequence" else [math.exp(gap) for gap in gaps]
    found = sampler_ratio(
        *(torch.tensor([row], dtype=torch.float64) for row in (old, sampled, mask)),
        mode=f"{level}_{action}",
        clip_min=bounds[0],
        clip_max=bounds[1],
    )
    assert found[0].tolist() == pytest.approx([bounded(ratio, action, *bounds) for ratio in raw])


def test_sequence_ratio_is_a_product_so_that_long_completions_fall_out():
    old, sampled = torch.full((1, 100), -1.0), torch.full((1, 100), -1.012)
    ratio = sampler_ratio(old, sampled, torch.ones(1, 100), mode="sequence_mask", clip_min=None, clip_max=3.0)
    assert ratio.tolist() == [[0.0]]


def test_metrics():
    old = torch.tensor([[0.0, -1.0, -2.0], [0.0, 0.0, 0.0]])
    sampled = torch.tensor([[-0.1, math.nan, -9.0], [0.3, 0.0, 0.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    ratio = sampler_ratio(old, sampled, mask, mode="token_mask", clip_min=None, clip_max=3.0)
    metrics = reduce_statistics(sampler_statistics(old, sampled, ratio, mask))
    assert metrics["sampling/sampling_logp_difference/mean"] == pytest.approx(0.2)
    assert metrics["sampling/sampling_logp_difference/max"] == pytest.approx(0.3)
    active = [math.exp(0.1), 1.0, math.exp(-0.3)]
    prefix = "sampling/importance_sampling_ratio"
    assert metrics[f"{prefix}/min"] == pytest.approx(min(active))
    assert metrics[f"{prefix}/mean"] == pytest.approx(sum(active) / 3)
    assert metrics[f"{prefix}/max"] == pytest.approx(max(active))


def test_unknown_mode_names_the_modes():
    with pytest.raises(ValueError, match=r"unknown vllm_importance_sampling_mode 'both'.*token_truncate"):
        sampler_ratio(*[torch.zeros(1, 1)] * 3, mode="both", clip_min=None, clip_max=None)
