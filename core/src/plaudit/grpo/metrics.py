"""Metrics since the last log, averaged when they are logged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .statistics import Statistic, reduce_statistics
from .world import World


class MetricWindow:
    """Collects values one by one; `drain` gives the mean of each over the window, by their weights.

    NaN values are left out; a metric with nothing else is None. Statistics of micro-batches stay on the device, and are
    reduced over ranks in one exchange for the whole window; each micro-batch then counts as one value.
    """

    def __init__(self) -> None:
        self._values: dict[str, list[tuple[float, float]]] = {}
        self._latest: dict[str, float] = {}
        self._pending: list[tuple[Mapping[str, Statistic], float]] = []

    def add(self, metrics: Mapping[str, float], weight: float = 1.0) -> None:
        """One value of each metric, the same on every rank or this rank's own business."""
        for name, value in metrics.items():
            self._values.setdefault(name, []).append((value, weight))

    def put(self, name: str, value: float) -> None:
        """A metric that is logged as it last was."""
        self._latest[name] = value

    def add_statistics(self, statistics: Mapping[str, Statistic], weight: float = 1.0) -> None:
        """The statistics of one micro-batch. Every rank adds equally many, with the same names and weights."""
        self._pending.append((statistics, weight))

    def settle(self, world: World) -> None:
        """Reduce what is pending; a collective call."""
        named = {
            f"{place} {name}": statistic
            for place, (found, _) in enumerate(self._pending)
            for name, statistic in found.items()
        }
        weights = [weight for _, weight in self._pending]
        self._pending = []
        for key, value in reduce_statistics(named, world).items():
            place, name = key.split(" ", 1)
            self.add({name: value}, weights[int(place)])

    def drain(self, world: World) -> dict[str, float | None]:
        """The means, and an empty window; a collective call."""
        self.settle(world)
        means: dict[str, float | None] = {}
        for name, values in self._values.items():
            known = [(value * weight, weight) for value, weight in values if not math.isnan(value)]
            total = sum(weight for _, weight in known)
            means[name] = sum(value for value, _ in known) / total if known else None
        means |= self._latest
        self._values, self._latest = {}, {}
        return means

    def state_dict(self) -> dict[str, Any]:
        """The settled window."""
        return {"values": {name: list(values) for name, values in self._values.items()}, "latest": dict(self._latest)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue a saved window."""
        self._values = {name: list(values) for name, values in state["values"].items()}
        self._latest, self._pending = dict(state["latest"]), []
