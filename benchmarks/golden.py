"""Compare the GRPO maths with golden vectors: `python benchmarks/golden.py [FILE.json]`.

Prints one JSON line: for advantages the number of cases and the worst error of values and metrics, for losses the worst
error of value, gradient and metrics. An error is |x - y| / max(|y|, floor), floor 1e-3 for advantages and 1e-6
otherwise; a value that is NaN on one side alone is an infinite error. Losses are computed in float64.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from plaudit.grpo.advantages import compute_advantages, reward_metrics
from plaudit.grpo.losses import policy_loss
from plaudit.grpo.records import LossInputs, LossOptions, LossScale
from plaudit.grpo.statistics import reduce_statistics

Case = Mapping[str, Any]
GOLDEN = Path(__file__).parent.parent / "core" / "tests" / "data" / "golden.json"


@dataclass(frozen=True)
class LossErrors:
    """The worst error of one case: its value, its gradient, its metrics."""

    loss: float
    grad: float
    metric: float


def advantage_errors(case: Case) -> tuple[float, float]:
    """The worst error of the advantages, and of the metrics."""
    rows = [[math.nan if score is None else score for score in row] for row in case["rewards"]]
    result = compute_advantages(
        torch.tensor(rows, dtype=torch.float32),
        num_generations=case["num_generations"],
        weights=case["reward_weights"],
        aggregation=case["aggregation"],
        scale=case["scale_rewards"],
    )
    metrics = reward_metrics(result, [f"r{k}" for k in range(len(case["reward_weights"]))])
    return worst(result.values.tolist(), case["advantages"], 1e-3), worst_metric(metrics, case["metrics"], 1e-3)


def loss_errors(case: Case) -> LossErrors:
    """The worst errors of one loss case."""
    inputs, options, scale = loss_call(case)
    coefficient = case["config"]["ecoef"]
    result = policy_loss(inputs, options, scale, entropy_coef=coefficient)
    result.loss.backward()
    metrics = {**reduce_statistics(result.statistics), "entropy_coef": coefficient}
    grad = torch.zeros_like(inputs.logp) if inputs.logp.grad is None else inputs.logp.grad
    expected = torch.tensor(case["grad_logp"], dtype=torch.float64)
    return LossErrors(
        worst([result.loss.item()], [case["loss"]], 1e-6),
        worst(grad.flatten().tolist(), expected.flatten().tolist(), 1e-6),
        worst_metric(metrics, case["metrics"], 1e-6),
    )


def loss_call(case: Case) -> tuple[LossInputs, LossOptions, LossScale]:
    """The arguments of `policy_loss` for one case of the file's format."""
    config, given = case["config"], case["inputs"]
    tensors = {name: _tensor(given[name]) for name in ("logp", "old", "ref", "samp", "mask", "adv", "ent", "is")}
    inputs = LossInputs(
        logp=tensors["logp"].requires_grad_(),
        mask=tensors["mask"],
        advantages=tensors["adv"],
        old=None if config["onpolicy"] else tensors["old"],
        ref=tensors["ref"],
        sampled=tensors["samp"] if config["vllm"] else None,
        entropy=tensors["ent"],
        sampler_ratio=tensors["is"] if config["vllm"] else None,
    )
    options = LossOptions(
        loss_type=config["loss"],
        importance_sampling_level=config["level"],
        epsilon=config["eps"],
        epsilon_high=config["eps_high"],
        delta=config["delta"],
        beta=config["beta"],
        use_bias_correction_kl=config["bias_kl"],
        sapo_temperature_pos=config["tpos"],
        sapo_temperature_neg=config["tneg"],
        off_policy_mask_threshold=config["opm"],
        top_entropy_quantile=config["teq"],
        entropy_bonus=config["ecoef"] != 0,
    )
    scale = LossScale(
        items=float(given["n_items"]),
        max_completion_length=config["maxlen"],
        accumulation=config["ga"],
        steps_per_generation=config["spg"],
    )
    return inputs, options, scale


def worst_metric(found: Mapping[str, float], expected: Mapping[str, float | None], floor: float) -> float:
    """The worst error of the expected metrics; a metric that is not reported is an infinite one."""
    return max((error(found.get(name, math.inf), value, floor) for name, value in expected.items()), default=0.0)


def worst(found: Sequence[float], expected: Sequence[float | None], floor: float) -> float:
    """The worst error of two sequences of one length."""
    return max((error(x, y, floor) for x, y in zip(found, expected, strict=True)), default=0.0)


def error(found: float, expected: float | None, floor: float) -> float:
    """|found - expected| / max(|expected|, floor); null and NaN are equal to each other and to nothing else."""
    if expected is None or math.isnan(expected):
        return 0.0 if math.isnan(found) else math.inf
    return math.inf if math.isnan(found) else abs(found - expected) / max(abs(expected), floor)


def _tensor(values: Any) -> torch.Tensor:
    if isinstance(values, list):
        values = [_floats(value) for value in values]
    return torch.tensor(values, dtype=torch.float64)


def _floats(value: Any) -> Any:
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return math.nan if value is None else value


def report(golden: Mapping[str, Sequence[Case]]) -> dict[str, dict[str, float]]:
    """The worst errors over a whole file."""
    advantages = [advantage_errors(case) for case in golden.get("advantages", [])]
    losses = [loss_errors(case) for case in golden.get("losses", [])]
    return {
        "advantages": {
            "n": len(advantages),
            "worst": max((value for value, _ in advantages), default=0.0),
            "worst_metric": max((metric for _, metric in advantages), default=0.0),
        },
        "losses": {
            "n": len(losses),
            "worst_loss": max((case.loss for case in losses), default=0.0),
            "worst_grad": max((case.grad for case in losses), default=0.0),
            "worst_metric": max((case.metric for case in losses), default=0.0),
        },
    }


def main() -> None:
    """Read the file and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "file", type=Path, nargs="?", default=GOLDEN, help="golden vectors; those of the tests if absent"
    )
    print(json.dumps(report(json.loads(parser.parse_args().file.read_text()))))


if __name__ == "__main__":
    main()
