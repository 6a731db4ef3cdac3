"""Rows of like length share a micro-batch where they are padded, and only where that changes nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from plaudit.grpo.forward.ordering import ByLength, as_drawn

from runs import make_model, make_trainer

LENGTHS = [3, 9, 1, 7, 5, 2, 8, 6]
ROLLOUTS = [SimpleNamespace(prompt_ids=(0,), completion_ids=(0,) * length) for length in LENGTHS]


@pytest.mark.parametrize(
    ("parts", "accumulation", "expected"),
    [
        (4, 4, [9, 8, 7, 6, 5, 3, 2, 1]),
        (2, 4, [9, 8, 7, 6, 5, 3, 2, 1]),
        # Two optimizer steps of four rows; four of two; and micro-batches that no step has to itself.
        (4, 2, [9, 7, 3, 1, 8, 6, 5, 2]),
        (4, 1, [9, 3, 7, 1, 5, 2, 8, 6]),
        (4, 3, [9, 3, 7, 1, 5, 2, 8, 6]),
    ],
)
def test_rows_are_sorted_within_optimizer_steps(parts, accumulation, expected):
    order = ByLength(parts, accumulation)(ROLLOUTS, range(8))
    assert [LENGTHS[place] for place in order] == expected


def test_equally_long_rows_stay_as_drawn():
    same = [ROLLOUTS[0]] * 4
    assert list(ByLength(2, 2)(same, [2, 0, 3, 1])) == [2, 0, 3, 1]


CHECKPOINTED = {"gradient_checkpointing": True}


@pytest.mark.parametrize(
    ("options", "sorts"),
    [
        ({}, False),
        (CHECKPOINTED, True),
        ({**CHECKPOINTED, "loss_type": "grpo"}, True),
        ({**CHECKPOINTED, "loss_type": "bnpo"}, False),
        ({**CHECKPOINTED, "entropy_coef": 0.1}, False),
        ({**CHECKPOINTED, "top_entropy_quantile": 0.5}, False),
    ],
)
def test_only_padded_rows_are_sorted_and_only_where_a_loss_spans_the_step(options, sorts, tmp_path):
    trainer = make_trainer(tmp_path, per_device_train_batch_size=4, gradient_accumulation_steps=2, **options)
    assert (trainer.source.arrange is not as_drawn) == sorts


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo", "luspo", "sapo", "cispo", "vespo"])
def test_sorting_changes_no_weight(loss_type, tmp_path):
    weights = []
    for arrange in (as_drawn, ByLength(4, 2)):
        trainer = make_trainer(
            tmp_path,
            model=make_model(dtype=torch.float64),
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            steps_per_generation=4,
            num_iterations=2,
            max_steps=4,
            loss_type=loss_type,
            bf16=False,
        )
        trainer.source.arrange = arrange
        trainer.train()
        weights.append(list(trainer.model.parameters()))
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
