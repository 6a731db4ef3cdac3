"""What a run's metrics say of its health, and what to do about it."""

from __future__ import annotations

from .checks import CHECKS
from .finding import Finding
from .history import History
from .monitor import HealthMonitor

__all__ = ["CHECKS", "Finding", "HealthMonitor", "History"]
