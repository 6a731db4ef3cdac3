"""Rollouts of many turns: tools that the model calls, and environments that hold the state of one rollout."""

from .spec import EnvironmentSpec, ToolSpec

__all__ = ["EnvironmentSpec", "ToolSpec"]
