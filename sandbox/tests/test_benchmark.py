"""The benchmark of sandboxes: its arithmetic, its table, and a short run of each part."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "sandbox", raising=False)
    import sandbox

    return sandbox


def test_percentiles(benchmark: ModuleType) -> None:
    assert benchmark.percentiles([float(n) for n in range(1, 102)]) == pytest.approx((51, 96, 100))


def test_table(benchmark: ModuleType) -> None:
    rows = [
        benchmark.Row("ours", 123.4, 5.678, {1: (1.0, 2.0, 3.0), 8: (4.0, 5.0, 6.0)}),
        benchmark.peer("agentbox-docker", None, 8, None),
    ]
    text = benchmark.table(rows)
    assert "123.4    5.68   1: 1.0/2.0/3.0  8: 4.0/5.0/6.0" in text
    assert "agentbox-docker" in text
    assert "skipped: not given: --agentbox PYTHON" in text


def test_a_peer_that_fails_is_skipped_with_its_last_words(benchmark: ModuleType) -> None:
    row = benchmark.peer("llm-sandbox-bubblewrap", sys.executable, 8, None)
    assert "llm_sandbox" in row.skipped


def test_lanes(benchmark: ModuleType) -> None:
    measured = benchmark.measure_threads([lambda: "1\n", lambda: "1"], 10)
    assert len(measured["latencies"]) == 10
    with pytest.raises(RuntimeError, match="instead of 1"):
        benchmark.measure_threads([lambda: "2"], 2)


async def test_a_short_run(benchmark: ModuleType, keep_local_warm: Callable[[str], None]) -> None:
    keep_local_warm("namespaces")
    benchmark.IN_FLIGHT = (1, 4)
    row = await benchmark.ours("local", 8, {"tier": "namespaces"})
    assert row.rate > 0
    assert set(row.latencies) == {1, 4}
    assert (await benchmark.ours("local", 8, {"tier": "steel"})).skipped


async def test_a_short_soak(benchmark: ModuleType, keep_local_warm: Callable[[str], None]) -> None:
    keep_local_warm("namespaces")
    report = await benchmark.soak("local", 60)
    assert not report["wrong"]
    assert sum(report["statuses"].values()) == 60
