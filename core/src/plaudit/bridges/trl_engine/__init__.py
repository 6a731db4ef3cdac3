"""`engine = "trl"`: the same run file, the same rewards, tools and environments, trained by TRL's GRPOTrainer."""

from __future__ import annotations

from .checking import check_conversations, check_engine
from .trainer import TRLRun, build_trl_trainer

__all__ = ["TRLRun", "build_trl_trainer", "check_conversations", "check_engine"]
