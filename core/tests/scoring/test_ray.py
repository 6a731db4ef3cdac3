"""Rewards on a Ray cluster of this machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plaudit import UsageError
from plaudit.scoring.policy import resolve
from plaudit.scoring.spec import reward_specs

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.timeout(240)
def test_faults_on_a_cluster_cost_only_their_rollout(cluster, score, hostile):
    spec = replace(reward_specs(hostile("function"))[0], executor="ray", timeout_s=30, memory_mb=256)
    assert resolve(spec).executor == "ray"
    table = score([spec], ["fine", "raise", "exit", "system_exit", "print", "fine too"])
    assert [row[0] for row in table.scores] == [1.0, None, None, None, 1.0, 1.0]
    assert [f.kind for f in table.failures] == ["ValueError", "killed", "SystemExit"]
    assert table.columns["seen"] == ("fine", None, None, None, "print", "fine ")


@pytest.mark.timeout(240)
def test_a_hung_task_is_cancelled(cluster, score, hostile):
    spec = replace(reward_specs(hostile("judge"))[0], executor="ray", timeout_s=8, memory_mb=256)
    table = score([spec], ["fine", "hang", "fine 2"])
    assert [row[0] for row in table.scores] == [1.0, None, 1.0]
    assert table.failures[0].kind == "timeout"


def test_without_ray_it_says_what_to_install(score, hostile, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"plaudit\[ray\]"):
        score([replace(reward_specs(hostile("judge"))[0], executor="ray")], ["a"])
