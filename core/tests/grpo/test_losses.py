"""The loss beside a second derivation, token by token in plain Python, its gradient by central differences.

Terms that carry no gradient are evaluated at a frozen copy of the log-probs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit.grpo import LossInputs, LossOptions, LossScale, policy_loss, reduce_statistics
from plaudit.grpo.losses import LOSSES

ROWS, TOKENS = 3, 4
SCALE = LossScale(items=17.0, max_completion_length=9, accumulation=3, steps_per_generation=2, world_size=2)


def clip(value, low, high):
    return min(max(value, low), high)


def row_mean(values, mask):
    return sum(v * m for v, m in zip(values, mask, strict=True)) / max(sum(mask), 1)


def ratios(logp, old, mask, level):
    gaps = [x - y for x, y in zip(logp, old, strict=True)]
    return [math.exp(row_mean(gaps, mask))] * len(gaps) if level == "sequence" else [math.exp(gap) for gap in gaps]


def vespo_weight(logp, old, mask, advantage, sampler, options):
    total = sum(clip(x - y, -20, 20) * m for x, y, m in zip(logp, old, mask, strict=True))
    if sampler is not None:
        total += sum(clip(math.log(value), math.log(1e-8), 20) for value in sampler)
    total = clip(total, math.log(1e-8), 20)
    good = advantage >= 0
    k = options.vespo_k_pos if good else options.vespo_k_neg
    rate = options.vespo_lambda_pos if good else options.vespo_lambda_neg
    return math.exp(rate + k * total - rate * math.exp(total))


def token_loss(name, ratio, frozen_ratio, logp, advantage, weight, options):
    if name == "cispo":
        return -min(frozen_ratio, options.epsilon_high) * advantage * logp
    if name == "vespo":
        return -weight * advantage * logp
    if name == "sapo":
        t = options.sapo_temperature_pos if advantage > 0 else options.sapo_temperature_neg
        t = float(torch.tensor(t, dtype=torch.float32))
        return -4 / t / (1 + math.exp(-t * (ratio - 1))) * advantage
    within = clip(ratio, 1 - options.epsilon, 1 + options.epsilon_high)
    capped = ratio if options.delta is None else min(ratio, options.delta)
    return -min(capped * advantage, within * advantage)


def aggregate(name, losses, masks):
    sums = [sum(v * m for v, m in zip(row, mask, strict=True)) for row, mask in zip(losses, masks, strict=True)]
    lengths = [max(sum(mask), 1) for mask in masks]
    if name in ("grpo", "sapo"):
        return fmean(s / n for s, n in zip(sums, lengths, strict=True)) / 3
    if name == "bnpo":
        return sum(sums) / max(sum(map(sum, masks)), 1) / 3
    if name == "dr_grpo":
        return sum(sums) / (len(masks) * 9) / 3
    if name == "luspo":
        return fmean(sums) / 3
    return sum(sums) / (17 / 2 * 3 / 2)


def derive(logp, frozen, data, options):
    """The loss at `logp`, with what carries no gradient taken at `frozen`."""
    rows = []
    for i in range(ROWS):
        mask, advantage = data["mask"][i], data["advantages"][i]
        ratio = ratios(logp[i], data["old"][i], mask, options.importance_sampling_level)
        frozen_ratio = ratios(frozen[i], data["old"][i], mask, options.importance_sampling_level)
        sampler = None if data["ratio"] is None else data["ratio"][i]
        weight = vespo_weight(frozen[i], data["old"][i], mask, advantage, sampler, options)
        drift = row_mean([s - f for s, f in zip(data["sampled"][i], frozen[i], strict=True)], mask)
        threshold = options.off_policy_mask_threshold
        keep = 1.0 if threshold is None or advantage >= 0 or drift <= threshold else 0.0
        row = []
        for t in range(TOKENS):
            loss = token_loss(options.loss_type, ratio[t], frozen_ratio[t], logp[i][t], advantage, weight, options)
            loss *= keep * (1.0 if sampler is None or options.loss_type == "vespo" else sampler[t])
            gap = data["ref"][i][t] - logp[i][t]
            kl = math.exp(gap) - gap - 1
            row.append(loss + options.beta * kl * (ratio[t] if options.use_bias_correction_kl else 1.0))
        rows.append(row)
    return aggregate(options.loss_type, rows, data["mask"])


numbers = st.floats(-2.0, 2.0).map(lambda value: round(value, 3))


def grid(values):
    row = st.lists(values, min_size=TOKENS, max_size=TOKENS)
    return st.lists(row, min_size=ROWS, max_size=ROWS)


@st.composite
def problems(draw):
    data = {
        "logp": draw(grid(numbers)),
        "old": draw(grid(numbers)),
        "ref": draw(grid(numbers)),
        "sampled": draw(grid(numbers)),
        "mask": draw(grid(st.integers(0, 1))),
        "advantages": draw(st.lists(numbers, min_size=ROWS, max_size=ROWS)),
        "ratio": draw(st.none() | grid(st.floats(0.1, 3.0))),
    }
    options = LossOptions(
        importance_sampling_level=draw(st.sampled_from(["token", "sequence"])),
        epsilon=0.2,
        epsilon_high=0.28,
        delta=draw(st.sampled_from([None, 1.37])),
        beta=draw(st.sampled_from([0.0, 0.11])),
        use_bias_correction_kl=draw(st.booleans()),
        off_policy_mask_threshold=draw(st.sampled_from([None, 0.053])),
    )
    return data, options


def tensor(values):
    return None if values is None else torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("loss_type", LOSSES)
@settings(max_examples=25, deadline=None)
@given(problem=problems())
def test_value_and_gradient(loss_type, problem):
    data, options = problem
    options = replace(options, loss_type=loss_type)
    logp = tensor(data["logp"]).requires_grad_()
    rest = {name: tensor(data[name]) for name in ("mask", "advantages", "old", "ref", "sampled")}
    result = policy_loss(LossInputs(logp=logp, sampler_ratio=tensor(data["ratio"]), **rest), options, SCALE)
    result.loss.backward()
    expected = derive(data["logp"], data["logp"], data, options)
    assert result.loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    step = 1e-6
    for i in range(ROWS):
        for t in range(TOKENS):
            up, down = [[list(row) for row in data["logp"]] for _ in range(2)]
            up[i][t] += step
            down[i][t] -= step
            sides = [derive(moved, data["logp"], data, options) - expected for moved in (up, down)]
            slopes = sorted([sides[0] / step, -sides[1] / step])
            # Right on a kink of the clip the two one-sided slopes differ, and any slope between them is correct.
            tolerance = 1e-4 * max(1.0, abs(slopes[0]), abs(slopes[1]))
            assert slopes[0] - tolerance <= logp.grad[i, t].item() <= slopes[1] + tolerance


def example(**changes):
    noise = torch.Generator().manual_seed(3)
    logp = -torch.rand(ROWS, TOKENS, generator=noise)
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    inputs = LossInputs(
        logp=logp.requires_grad_(),
        mask=mask,
        advantages=torch.tensor([1.0, -1.0, 0.5]),
        old=(logp + 0.3 * torch.randn(logp.shape, generator=noise)).detach(),
        entropy=torch.rand(logp.shape, generator=noise),
    )
    return replace(inputs, **changes)


@pytest.mark.parametrize("loss_type", LOSSES)
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_log_probs_are_used_in_float32(loss_type, half):
    inputs, options = example(), LossOptions(loss_type=loss_type, entropy_bonus=True)
    short = replace(inputs, logp=inputs.logp.detach().to(half).requires_grad_())
    long = replace(inputs, logp=short.logp.detach().float().requires_grad_())
    found = policy_loss(short, options, SCALE, entropy_coef=0.1)
    expected = policy_loss(long, options, SCALE, entropy_coef=0.1)
    found.loss.backward()
    expected.loss.backward()
    assert found.loss.dtype == torch.float32
    assert torch.equal(found.loss, expected.loss)
    torch.testing.assert_close(short.logp.grad, long.logp.grad.to(half))


@pytest.mark.parametrize("loss_type", LOSSES)
def test_nothing_to_learn_from_is_a_finite_zero(loss_type):
    inputs = example(mask=torch.zeros(ROWS, TOKENS))
    options = LossOptions(loss_type=loss_type, top_entropy_quantile=0.5, entropy_bonus=True)
    result = policy_loss(inputs, options, replace(SCALE, items=0.0), entropy_coef=0.1)
    result.loss.backward()
    assert result.loss.item() == 0
    assert not inputs.logp.grad.any()
    metrics = reduce_statistics(result.statistics)
    assert all(value == 0 or math.isnan(value) or name == "vespo/phi_seq_mean" for name, value in metrics.items())


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo", "cispo"])
def test_on_policy_gradient_is_that_of_reinforce(loss_type):
    """At ratio 1 these losses all push log-probs by the advantage; they differ in the weight of a token alone."""
    inputs = example(old=None)
    options = LossOptions(loss_type=loss_type, epsilon_high=5.0)
    policy_loss(inputs, options, SCALE).loss.backward()
    lengths = {"grpo": 3 * 3 * 3, "bnpo": 4 * 3, "dr_grpo": 27 * 3, "dapo": 17 / 2 * 1.5, "cispo": 17 / 2 * 1.5}
    assert inputs.logp.grad[0, 0].item() == pytest.approx(-1.0 / lengths[loss_type])
    assert not inputs.logp.grad[2].any()


def test_dapo_over_a_generation_batch_is_one_token_mean():
    """SPG 4, GA 2, two ranks: the gradient steps of an iteration sum to the plain mean over all tokens."""
    noise = torch.Generator().manual_seed(0)
    masks = torch.randint(0, 2, (2, 4, ROWS, TOKENS), generator=noise)
    advantages = torch.randn(2, 4, ROWS, generator=noise)
    scale = LossScale(
        items=float(masks.sum()), max_completion_length=9, accumulation=2, steps_per_generation=4, world_size=2
    )
    total = 0.0
    for rank in range(2):
        for micro in range(4):
            inputs = LossInputs(torch.zeros(ROWS, TOKENS), masks[rank, micro], advantages[rank, micro])
            total += policy_loss(inputs, LossOptions(), scale).loss.item()
    # DDP averages over the 2 ranks, and there are 2 optimizer steps, each of which is a mean.
    expected = -(masks.sum(-1) * advantages).sum() / masks.sum()
    assert total / 2 / 2 == pytest.approx(expected.item())


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"loss_type": "ppo"}, "unknown loss_type 'ppo'"),
        ({"importance_sampling_level": "turn"}, "unknown importance_sampling_level 'turn'"),
        ({"beta": 0.1}, "pass inputs.ref"),
        ({"entropy_bonus": True}, "pass inputs.entropy"),
        ({"top_entropy_quantile": 0.5}, "pass inputs.entropy"),
    ],
)
def test_wrong_use(options, named):
    with pytest.raises(ValueError, match=named):
        policy_loss(example(entropy=None), LossOptions(**options), SCALE)
