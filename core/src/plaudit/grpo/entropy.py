"""The entropy bonus: a coefficient that is fixed, or that a small controller moves (Skywork-OR1, arXiv 2505.22312)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .world import World


class EntropyController:
    """Holds the coefficient of the entropy bonus.

    Fixed: `coefficient` is always `initial`. Adaptive: it applies only while the entropy of the last optimizer step was
    at most `target`, and each step moves it by `step_size` (up while entropy is at most the target, else down) within
    `minimum` and `maximum`. Before the first measurement no bonus is paid. Save and restore it with `state_dict`.
    """

    def __init__(
        self,
        initial: float,
        *,
        adaptive: bool = False,
        target: float = 0.2,
        step_size: float = 0.005,
        minimum: float = 0.0,
        maximum: float = 1.0,
    ) -> None:
        self.value = initial
        self.adaptive = adaptive
        self._target, self._step_size, self._minimum, self._maximum = target, step_size, minimum, maximum
        self._last_entropy = math.inf
        self._window: Tensor | None = None

    @classmethod
    def from_config(cls, config: Any) -> EntropyController:
        """The controller that a GRPOConfig asks for."""
        return cls(
            config.entropy_coef,
            adaptive=config.use_adaptive_entropy,
            target=config.entropy_target,
            step_size=config.entropy_coef_delta,
            minimum=config.entropy_coef_min,
            maximum=config.entropy_coef_max,
        )

    @property
    def coefficient(self) -> float:
        """What the micro-batches of the current step multiply the mean entropy with."""
        return self.value if not self.adaptive or self._last_entropy <= self._target else 0.0

    def observe(self, entropy_sum: Tensor, entropy_count: Tensor) -> None:
        """Add one training micro-batch (0-dim sum of entropies and number of tokens) to the window of this step."""
        if self.adaptive:
            seen = torch.stack([entropy_sum, entropy_count]).detach()
            self._window = seen if self._window is None else self._window + seen

    def step(self, world: World | None = None) -> None:
        """End of an optimizer step, on every rank: measure the window's mean entropy and move the coefficient."""
        if self._window is None:
            return
        total, count = (world or World()).gather(self._window).view(-1, 2).sum(0).tolist()
        self._window = None
        self._last_entropy = total / max(count, 1.0)
        if self._last_entropy <= self._target:
            self.value = min(self.value + self._step_size, self._maximum)
        else:
            self.value = max(self.value - self._step_size, self._minimum)

    def state_dict(self) -> dict[str, float]:
        """The state at the end of an optimizer step, under the names of TRL's entropy_ctrl_state.json."""
        return {"entropy_coef": self.value, "last_world_entropy": self._last_entropy}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continue from a saved state."""
        self.value, self._last_entropy = state["entropy_coef"], state["last_world_entropy"]
        self._window = None
