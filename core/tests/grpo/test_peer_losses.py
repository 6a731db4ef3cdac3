"""Every loss beside TRL's own `_compute_loss`, which is given the same log-probs in place of a model's."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from drawn_losses import ROWS, TOKENS, draw_inputs, draw_options, draw_settings
from plaudit.grpo import EntropyController, LossInputs, LossScale, policy_loss, reduce_statistics
from plaudit.grpo.losses import LOSSES

pytestmark = pytest.mark.peer

CASES_EACH = 8


class LoneAccelerator:
    num_processes = 1
    sync_gradients = True

    def gather(self, values):
        return values

    gather_for_metrics = gather

    def reduce(self, values, reduction):
        return values

    def pad_across_processes(self, values, dim, pad_index):
        return values


@pytest.fixture(scope="module")
def peer():
    grpo_trainer = pytest.importorskip("trl.trainer.grpo_trainer")

    class Bare(grpo_trainer.GRPOTrainer):
        def __init__(self, logp, entropy, options, settings):
            self._given = logp, entropy
            self.accelerator = LoneAccelerator()
            self.model = SimpleNamespace(training=settings["training"])
            self._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
            self.args = SimpleNamespace(
                delta=options.delta,
                use_bias_correction_kl=options.use_bias_correction_kl,
                sapo_temperature_pos=options.sapo_temperature_pos,
                sapo_temperature_neg=options.sapo_temperature_neg,
                vespo_k_pos=options.vespo_k_pos,
                vespo_lambda_pos=options.vespo_lambda_pos,
                vespo_k_neg=options.vespo_k_neg,
                vespo_lambda_neg=options.vespo_lambda_neg,
                steps_per_generation=settings["steps_per_generation"],
                report_to=[],
                **settings["controller"],
            )
            for name in ("loss_type", "importance_sampling_level", "beta", "epsilon_high", "top_entropy_quantile"):
                setattr(self, name, getattr(options, name))
            self.epsilon_low = options.epsilon
            self.off_policy_mask_threshold = options.off_policy_mask_threshold
            self.use_vllm = settings["sampler"]
            self.vllm_importance_sampling_correction = True
            self.max_completion_length = settings["max_completion_length"]
            self.current_gradient_accumulation_steps = settings["accumulation"]
            self.aux_loss_enabled = False
            self.entropy_coef = settings["entropy_coef"]
            self.use_adaptive_entropy = settings["adaptive"]
            self._entropy_bonus_enabled = options.entropy_bonus
            self._last_world_entropy = float("inf")
            self._entropy_window_stats = None

        def _get_per_token_logps_and_entropies(self, *args, **kwargs):
            return (*self._given, None)

    return Bare


def peer_inputs(given):
    tokens = given["logp"].shape[1]
    inputs = {
        "prompt_ids": torch.ones(ROWS, 2, dtype=torch.long),
        "prompt_mask": torch.ones(ROWS, 2, dtype=torch.long),
        "completion_ids": torch.ones(ROWS, tokens, dtype=torch.long),
        "completion_mask": given["mask"],
        "advantages": given["advantages"],
        "ref_per_token_logps": given["ref"],
        "num_items_in_batch": torch.tensor(float(given["mask"].sum() * 3)),
    }
    extra = {
        "old_per_token_logps": given["old"],
        "sampling_per_token_logps": given["sampled"],
        "importance_sampling_ratio": given["ratio"],
    }
    return inputs | {name: value for name, value in extra.items() if value is not None}


def ours(given, options, settings, coefficient):
    logp = given["logp"].clone().requires_grad_()
    entropy = given["entropy"].clone().requires_grad_()
    training = settings["training"]
    result = policy_loss(
        LossInputs(
            logp=logp,
            mask=given["mask"],
            advantages=given["advantages"],
            old=given["old"],
            ref=given["ref"],
            sampled=given["sampled"],
            entropy=entropy,
            sampler_ratio=given["ratio"],
        ),
        options,
        LossScale(
            items=float(given["mask"].sum() * 3),
            max_completion_length=settings["max_completion_length"],
            accumulation=settings["accumulation"] if training else 1,
            steps_per_generation=settings["steps_per_generation"] if training else 1,
        ),
        entropy_coef=coefficient,
    )
    result.loss.backward()
    return result, logp.grad, entropy.grad


CASES = [(loss, level, seed) for loss, level in product(LOSSES, ("token", "sequence")) for seed in range(CASES_EACH)]


@pytest.mark.parametrize(("loss_type", "level", "seed"), CASES)
def test_loss_gradient_and_metrics(peer, loss_type, level, seed):
    dice = random.Random(f"{loss_type} {level} {seed}")
    settings = draw_settings(dice)
    options = draw_options(dice, loss_type, level, settings)
    given = draw_inputs(dice, settings)
    result, grad, entropy_grad = ours(given, options, settings, settings["entropy_coef"])

    logp, entropy = given["logp"].clone().requires_grad_(), given["entropy"].clone().requires_grad_()
    trainer = peer(logp, entropy, options, settings)
    expected = trainer._compute_loss(None, peer_inputs(given))
    expected.backward()

    close = {"rtol": 1e-10, "atol": 1e-12}
    torch.testing.assert_close(result.loss, expected, **close)
    torch.testing.assert_close(grad, logp.grad, **close)
    if settings["entropy_coef"]:
        torch.testing.assert_close(entropy_grad, entropy.grad, **close)
    metrics = reduce_statistics(result.statistics)
    theirs = {name: values[0] for name, values in trainer._metrics["train" if settings["training"] else "eval"].items()}
    theirs.pop("entropy_coef", None)
    assert metrics == pytest.approx(theirs, rel=1e-5, abs=1e-6, nan_ok=True)


def test_adaptive_entropy_over_steps(peer):
    dice = random.Random(5)
    settings = draw_settings(dice) | {
        "training": True,
        "adaptive": True,
        "entropy_coef": 0.01,
        "tokens": TOKENS,
        "controller": {
            "entropy_target": 0.9,
            "entropy_coef_delta": 0.004,
            "entropy_coef_min": 0.0,
            "entropy_coef_max": 0.015,
        },
    }
    options = draw_options(dice, "dapo", "token", settings)
    controller = EntropyController(0.01, adaptive=True, target=0.9, step_size=0.004, minimum=0.0, maximum=0.015)
    trainer, seen = None, set()
    for step in range(12):
        for last in (False, True):
            given = draw_inputs(dice, settings)
            given["entropy"] = given["entropy"] * (0.5 if step < 6 else 2.0)
            logp, entropy = given["logp"].clone().requires_grad_(), given["entropy"].clone().requires_grad_()
            trainer = trainer or peer(logp, entropy, options, settings)
            trainer._given = logp, entropy
            trainer.accelerator.sync_gradients = last
            expected = trainer._compute_loss(None, peer_inputs(given))
            result, _, _ = ours(given, options, settings, controller.coefficient)
            torch.testing.assert_close(result.loss, expected, rtol=1e-10, atol=1e-12)
            controller.observe(result.entropy_sum, result.entropy_count)
        controller.step()
        assert controller.value == pytest.approx(trainer.entropy_coef, abs=1e-12)
        assert controller.state_dict()["last_world_entropy"] == pytest.approx(trainer._last_world_entropy)
        seen.add(controller.coefficient > 0)
    assert seen == {True, False}
