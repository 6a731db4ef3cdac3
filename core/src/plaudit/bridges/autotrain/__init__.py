"""AITraining's GRPO interface: its parameters, its flags and its three-method environments, on this engine."""

from __future__ import annotations

from .params import LLMTrainingParams
from .project import AutoTrainProject

__all__ = ["AutoTrainProject", "LLMTrainingParams"]
