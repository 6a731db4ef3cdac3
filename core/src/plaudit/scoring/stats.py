"""What one reward's calls of one session cost and how they ended, as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stats:
    """Filled from any thread by appends; read once, at the end. Times in seconds."""

    latencies: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    cache_hits: list[int] = field(default_factory=list)
    shared: int = 0
    abstentions: int = 0
    gated: int = 0
    last_end: float = 0.0

    def metrics(self, prefix: str, *, submitted_at: float, breaker_open: bool) -> dict[str, float]:
        """`{prefix}/latency_p50_s` and so on. `submitted_at`: when generation handed over its last rollout.

        `after_generation_s` is how long this reward was still busy then. Failures and abstentions count rollouts,
        each only as one of the two; one that a gate keeps from the reward is neither.
        """
        found: dict[str, float] = {}
        if self.latencies:
            ordered = sorted(self.latencies)
            found |= {
                "latency_p50_s": quantile(ordered, 0.5), "latency_p95_s": quantile(ordered, 0.95),
                "latency_max_s": ordered[-1],
                "queue_wait_mean_s": sum(self.waits) / len(self.waits), "queue_wait_max_s": max(self.waits),
                "after_generation_s": max(self.last_end - submitted_at, 0.0),
            }  # fmt: skip
        found |= {
            "calls": len(self.latencies), "timeouts": self.failures["timeout"],
            "retries": len(self.retries), "failures": sum(self.failures.values()), "abstentions": self.abstentions,
            "cache_hits": sum(self.cache_hits), "shared": self.shared, "breaker_open": float(breaker_open),
        }  # fmt: skip
        found |= {f"failures/{kind}": count for kind, count in sorted(self.failures.items())}
        return {f"{prefix}/{name}": float(value) for name, value in found.items()}


def quantile(ordered: Sequence[float], q: float) -> float:
    """The q-quantile of sorted numbers, linear between neighbours (numpy's default)."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
