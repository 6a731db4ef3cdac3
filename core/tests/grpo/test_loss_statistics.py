"""Quantiles, means and metrics of a loss, over tokens of all ranks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit.grpo import LossOptions, World, policy_loss, reduce_statistics
from plaudit.grpo.masks import interpolated_quantile, top_entropy_mask
from test_losses import ROWS, SCALE, TOKENS, example


class TwoRanks:
    """An accelerator whose other rank holds `other`."""

    num_processes = 2

    def __init__(self, other):
        self.other = other

    def pad_across_processes(self, values, dim, pad_index):
        short = max(0, len(self.other) - len(values))
        return torch.nn.functional.pad(values, (0, short), value=pad_index)

    def gather(self, values):
        missing = len(values) - len(self.other)
        other = torch.nn.functional.pad(self.other, (0, missing), value=-1e9) if values.dim() == 1 else self.other
        return torch.cat([values, other])


@pytest.mark.parametrize("other", [[9.0, 8.0], [9.0, 8.0, 7.0, 6.0, 5.0]])
def test_entropy_threshold_is_that_of_all_ranks(other):
    entropy, mask = torch.tensor([[1.0, 2.0, 3.0, 99.0]]), torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    world = World(TwoRanks(torch.tensor(other)))
    threshold = torch.quantile(torch.tensor([1.0, 2.0, 3.0, *other]), 0.25).item()
    found = top_entropy_mask(entropy, mask, 0.75, world)
    assert found.tolist() == [[float(value >= threshold) for value in (1.0, 2.0, 3.0)] + [0.0]]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.sampled_from([0.2, 0.5, 0.4, 0.1, 0.05, 0.9]))
def test_quantile_is_exactly_that_of_torch(quarters, share):
    values = torch.tensor(quarters, dtype=torch.float32) / 4
    assert torch.equal(interpolated_quantile(values, 1 - share), torch.quantile(values, 1 - share))


def test_statistics_reduce_to_the_mean_of_all_tokens():
    here = policy_loss(example(), LossOptions(), SCALE).statistics
    there = policy_loss(example(mask=torch.ones(ROWS, TOKENS)), LossOptions(), SCALE).statistics
    pairs = torch.stack([torch.stack([s.value.float(), s.count.float()]) for s in there.values()])
    both = reduce_statistics(here, World(TwoRanks(pairs)))
    entropy = example().entropy
    active = example().mask
    expected = ((entropy * active).sum() + entropy.sum()) / (active.sum() + entropy.numel())
    assert both["entropy"] == pytest.approx(expected.item())
    alone = [reduce_statistics(found) for found in (here, there)]
    assert both["clip_ratio/high_max"] == max(found["clip_ratio/high_max"] for found in alone)
    assert both["clip_ratio/low_min"] == min(found["clip_ratio/low_min"] for found in alone)
