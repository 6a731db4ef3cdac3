"""What the loss is told of an engine whose numerics differ from the policy's (spec: grpo-formulas A5).

No forward pass of its own: where the policy has not moved since the batch was written, its log-probs then are those of
the training forward, so ratios and metrics come from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from ...errors import UsageError
from ..batch import MicroBatch
from ..importance import sampler_ratio, sampler_statistics
from ..records import LossInputs
from ..source import RolloutSource
from ..statistics import Statistic
from ..writing import Mode


@dataclass(frozen=True, slots=True)
class Correction:
    """How the loss is weighed with the ratio of the policy to the engine, see `importance.sampler_ratio`."""

    mode: str
    clip_min: float | None
    clip_max: float | None
    geometric: bool = False

    def __call__(self, old: Tensor, sampled: Tensor, mask: Tensor) -> Tensor:
        """old, sampled, mask: (B, C). Returns (B, C) or (B, 1)."""
        bounds = {"clip_min": self.clip_min, "clip_max": self.clip_max}
        return sampler_ratio(old, sampled, mask, mode=self.mode, geometric=self.geometric, **bounds)


@dataclass(slots=True, eq=False)
class SamplerCorrector:
    """Completes the inputs of the loss, and gathers the `sampling/*` metrics of a generation batch.

    `exact`: whether the log-probs that come with completions are the policy's own; then nothing is done. `correction`:
    None = they are only shown to the off-policy mask.
    """

    exact: Callable[[], bool]
    correction: Correction | None = None
    _gathered: dict[Mode, dict[str, Statistic]] = field(default_factory=dict)

    @classmethod
    def from_config(cls, config: Any, exact: Callable[[], bool]) -> SamplerCorrector:
        """As a GRPOConfig says."""
        if not config.vllm_importance_sampling_correction:
            return cls(exact)
        low, high = config.vllm_importance_sampling_clip_min, config.vllm_importance_sampling_clip_max
        mode, geometric = config.vllm_importance_sampling_mode, config.vllm_importance_sampling_geometric_mean
        return cls(exact, Correction(mode, low, high, geometric))

    def __call__(self, inputs: LossInputs, batch: MicroBatch, mode: Mode = "train") -> LossInputs:
        """The inputs with the engine's log-probs and ratio. Raises UsageError when the engine reports no log-probs."""
        if self.exact():
            return inputs
        sampled = batch.sampled_logprobs
        if self.correction is None:
            return replace(inputs, sampled=sampled)
        if sampled is None:
            raise UsageError(
                "the engine that writes completions reports no log-probs, so its mismatch with the policy cannot be "
                "corrected; set vllm_importance_sampling_correction=False"
            )
        logp = inputs.logp.detach()
        old = (logp if inputs.old is None else inputs.old).to(logp.dtype)
        # Where the policy was not run its log-probs are unknown, unless they are kept since the batch was written.
        known = inputs.mask if inputs.ran is None or inputs.old is not None else inputs.mask * inputs.ran[:, None]
        ratio = self.correction(old, sampled.to(logp.dtype), known)
        rows = None if known is inputs.mask else inputs.ran
        gathered = self._gathered.setdefault(mode, {})
        for name, statistic in sampler_statistics(old, sampled.to(logp.dtype), ratio, known, rows).items():
            gathered[name] = gathered[name].joined(statistic) if name in gathered else statistic
        return replace(inputs, sampled=sampled, sampler_ratio=ratio)

    def take(self, mode: Mode, source: RolloutSource) -> Mapping[str, Statistic]:
        """The metrics of an evaluation batch, or of a generation batch when `source` has given all of it once.

        As in TRL they are one value for a generation batch, however often it is learnt from.
        """
        if mode == "eval":
            return self._gathered.pop(mode, {})
        rounds, place = divmod(source.position, source.schedule.steps_per_generation)
        if place:
            return {}
        found = self._gathered.pop(mode, {})
        return found if (rounds - 1) % source.schedule.num_iterations == 0 else {}
