"""sync_ref_model: the reference follows the policy, is kept by checkpoints, and needs a model of its own."""

from __future__ import annotations

import pytest
import torch
from plaudit.errors import UsageError

from runs import make_trainer

MOVING = {"beta": 0.5, "sync_ref_model": True}


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize(("alpha", "period"), [(0.6, 1), (0.25, 2), (1.0, 3), (0.0, 1)])
def test_the_reference_is_a_running_mixture(alpha, period, tmp_path):
    trainer = make_trainer(
        tmp_path, max_steps=4, **MOVING, ref_model_mixup_alpha=alpha, ref_model_sync_steps=period, weight_decay=0.0
    )
    expected, seen = weights(trainer.model), []
    step = trainer.training_step

    def watch(*args):
        seen.append(weights(trainer.model))  # as the step before left it
        return step(*args)

    trainer.training_step = watch
    trainer.train()
    policies = [*seen[1:], weights(trainer.model)]
    for number, policy in enumerate(policies, 1):
        if number % period == 0:
            expected = [(1 - alpha) * old + alpha * new for old, new in zip(expected, policy, strict=True)]
    for one, other in zip(expected, trainer.reference.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert not any(parameter.requires_grad for parameter in trainer.reference.model.parameters())


def test_an_adapter_has_no_reference_to_move(tmp_path, build_model):
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM")
    with pytest.raises(UsageError, match="sync_ref_model with a PEFT model"):
        make_trainer(tmp_path, model="not-loaded/at-all", peft_config=config, **MOVING)
    with pytest.raises(UsageError, match="sync_ref_model with a PEFT model"):
        make_trainer(tmp_path, model=get_peft_model(build_model(), config), **MOVING)


def test_a_checkpoint_without_a_reference_is_not_resumed(tmp_path):
    options = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, "beta": 0.5}
    make_trainer(tmp_path, **options).train()
    with pytest.raises(UsageError, match=r"checkpoint-1 has no reference_model.pth.*sync_ref_model=False"):
        make_trainer(tmp_path, **options, sync_ref_model=True).train(str(tmp_path / "checkpoint-1"))
