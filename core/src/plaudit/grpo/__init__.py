"""GRPO: the maths as pure functions on tensors, the configuration, and the trainer."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "GRPOTrainer": "trainer",
    "GRPOConfig": "config",
    "Advantages": "advantages",
    "compute_advantages": "advantages",
    "reward_metrics": "advantages",
    "LOSSES": "losses",
    "policy_loss": "losses",
    "LossInputs": "records",
    "LossOptions": "records",
    "LossScale": "records",
    "LossResult": "records",
    "EntropyController": "entropy",
    "sampler_ratio": "importance",
    "sampler_statistics": "importance",
    "Statistic": "statistics",
    "reduce_statistics": "statistics",
    "World": "world",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'plaudit.grpo' has no attribute {name!r}")
    return getattr(import_module(f"plaudit.grpo.{home}"), name)


def __dir__() -> list[str]:
    return __all__
