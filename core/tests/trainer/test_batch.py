"""Micro-batches from rollouts: the layout written out by hand."""

from __future__ import annotations

import torch
from plaudit.grpo.batch import Experience, MicroBatch, collate

ROWS = [Experience((5, 6), (7, 8, 1), (1, 0, 1)), Experience((9,), (2,), (1,)), Experience((4, 4, 4), (), ())]


def test_rows_are_padded_to_the_longest_input():
    batch = collate(ROWS, pad_token_id=0)
    assert batch.input_ids.tolist() == [[5, 6, 7, 8], [9, 0, 0, 0], [4, 4, 4, 0]]
    assert batch.attention_mask is None
    assert batch.positions.tolist() == [1, 2, 3, 4]
    assert batch.targets.tolist() == [7, 8, 1, 2]
    assert batch.slots.tolist() == [0, 1, 2, 3]
    assert batch.mask.tolist() == [[1, 0, 1], [1, 0, 0], [0, 0, 0]]


def test_a_multiple_rounds_both_widths_up_and_a_mask_shows_tokens():
    batch = collate(ROWS, pad_token_id=0, pad_to_multiple_of=8, attention_mask=True)
    assert batch.input_ids.shape == batch.mask.shape == (3, 8)
    assert batch.attention_mask.sum(1).tolist() == [4, 1, 3]
    assert batch.positions.tolist() == [1, 2, 3, 8]
    assert batch.slots.tolist() == [0, 1, 2, 8]


def test_selected_rows_are_those_of_a_batch_of_their_own_but_for_padding():
    batch = collate(ROWS, pad_token_id=0)
    chosen = batch.select(torch.tensor([1, 2]))
    assert chosen.input_ids.tolist() == [[9, 0, 0, 0], [4, 4, 4, 0]]
    assert chosen.positions.tolist() == [0]
    assert chosen.targets.tolist() == [2]
    assert chosen.slots.tolist() == [0]
    assert chosen.mask.tolist() == [[1, 0, 0], [0, 0, 0]]
    assert chosen.old_logprobs is None


def test_state_round_trips():
    batch = collate(ROWS, pad_token_id=0)
    again = MicroBatch.from_state(batch.state_dict())
    for name, value in batch.state_dict().items():
        other = getattr(again, name)
        assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other
