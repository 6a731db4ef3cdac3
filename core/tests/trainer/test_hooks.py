"""The hooks of a plugin see a training run; one that breaks costs its own part alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from plaudit import hookimpl
from plaudit.grpo.reporting import hooking
from plaudit.plugins.hooks import Hooks

from runs import make_trainer, metrics_of


def test_a_run_tells_its_hooks_and_logs_what_they_add(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, batches = [], []

    def on_scores(mode, rollouts, names, scores):
        batches.append((mode, len(rollouts), tuple(names), len(scores)))

    def on_log(mode, metrics):
        return {"reward_percent": 100 * metrics["reward"]} if mode == "train" and "reward" in metrics else None

    hooks = Hooks()
    seeing = {"on_step": lambda step: steps.append(step), "on_scores": on_scores, "on_log": on_log}
    hooks.register(SimpleNamespace(**{name: hookimpl(function) for name, function in seeing.items()}), "seeing")
    hooks.register(SimpleNamespace(on_log=hookimpl(lambda: "many")), "odd")
    hooks.register(SimpleNamespace(on_scores=hookimpl(lambda step: 1 / 0)), "broken")
    monkeypatch.setattr(hooking, "installed_hooks", lambda: hooks)
    with pytest.warns(UserWarning, match=r"(odd: on_log|broken: on_scores) failed"):
        make_trainer(tmp_path).train()

    assert steps == [1, 2]
    assert batches == [("train", 8, ("count_digits",), 8)] * 2
    logged = [line for line in metrics_of(tmp_path) if "reward" in line]
    assert len(logged) == 2
    assert [line["reward_percent"] for line in logged] == pytest.approx([100 * line["reward"] for line in logged])
    assert sorted(name for name, _ in hooks.broken) == ["broken", "odd"]
