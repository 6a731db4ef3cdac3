"""The order of rows: written out by hand, as properties, and beside TRL's sampler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit.errors import UsageError
from plaudit.grpo.sampler import PromptSampler, evaluation_order, rank_share


def test_unshuffled_batches_follow_the_dataset_and_drop_the_rest():
    sampler = PromptSampler(7, 3, seed=0, shuffle=False)
    assert sampler.batches_per_epoch == 2
    assert [sampler.batch(n) for n in range(4)] == [(0, 1, 2), (3, 4, 5), (0, 1, 2), (3, 4, 5)]


@given(rows=st.integers(1, 40), prompts=st.integers(1, 10), seed=st.integers(0, 99), number=st.integers(0, 30))
def test_an_epoch_takes_each_row_at_most_once_and_batches_can_be_asked_in_any_order(rows, prompts, seed, number):
    if rows < prompts:
        with pytest.raises(UsageError, match="generation batch takes"):
            PromptSampler(rows, prompts, seed)
        return
    sampler = PromptSampler(rows, prompts, seed)
    epoch = number // sampler.batches_per_epoch
    first = epoch * sampler.batches_per_epoch
    taken = [index for n in range(first, first + sampler.batches_per_epoch) for index in sampler.batch(n)]
    assert len(taken) == len(set(taken)) == sampler.batches_per_epoch * prompts
    assert PromptSampler(rows, prompts, seed).batch(number) == sampler.batch(number)


def test_epochs_and_seeds_differ():
    sampler = PromptSampler(30, 30, seed=1)
    assert len({sampler.batch(0), sampler.batch(1), sampler.batch(2), PromptSampler(30, 30, seed=2).batch(0)}) == 4


def test_ranks_share_a_batch_in_consecutive_parts():
    shares = [rank_share((4, 9, 2), num_generations=4, rank=rank, world_size=2) for rank in range(2)]
    assert shares == [[4, 4, 4, 4, 9, 9], [9, 9, 2, 2, 2, 2]]


@pytest.mark.peer
@pytest.mark.parametrize(("rows", "prompts", "generations", "steps", "iterations"), [(11, 4, 2, 2, 1), (9, 3, 4, 3, 2)])
def test_training_order_is_that_of_trl(rows, prompts, generations, steps, iterations):
    from trl.trainer.grpo_trainer import RepeatSampler

    theirs = RepeatSampler(list(range(rows)), generations, prompts, iterations * steps, shuffle=True, seed=5)
    ours = PromptSampler(rows, prompts, seed=5)
    for epoch in range(3):
        expected = []
        for place in range(ours.batches_per_epoch):
            batch = ours.batch(epoch * ours.batches_per_epoch + place)
            expected += rank_share(batch, num_generations=generations, rank=0, world_size=1) * (steps * iterations)
        assert list(theirs) == expected


@pytest.mark.peer
def test_evaluation_order_is_that_of_trl():
    from trl.trainer.grpo_trainer import RepeatSampler

    theirs = RepeatSampler(list(range(7)), 3, seed=5)
    assert evaluation_order(7, 3, seed=5) == list(theirs)
