"""How far a rollout with tools may go: rounds, budgets, contexts."""

from __future__ import annotations

import pytest
from scripted import Keep, call, chat_rows, make_trainer, turns_of
from tool_functions import add, once, run


@pytest.mark.parametrize(("limit", "turns"), [(None, 5), (0, 1), (1, 2), (3, 4)])
def test_max_tool_calling_iterations(tmp_path, limit, turns):
    seen, _, _ = run(
        tmp_path, lambda text, index: call("add", a=1, b=1) if turns_of(text) < 4 else "end", [add],
        max_tool_calling_iterations=limit, max_completion_length=1000,
    )  # fmt: skip
    assert {sum(m["role"] == "assistant" for m in completion) for completion in seen["completions"]} == {turns}


def test_an_answer_that_does_not_fit_is_dropped_and_ends_the_rollout(tmp_path):
    def long(size: int) -> str:
        """Much text.

        Args:
            size: How much.
        """
        return "x" * size

    seen, log, _ = run(tmp_path, once(lambda index: call("long", size=10 if index else 500)), [long])
    first, *others = seen["completions"]
    assert [message["role"] for message in first] == ["assistant"]
    assert all([message["role"] for message in one] == ["assistant", "tool", "assistant"] for one in others)
    assert log["completions/clipped_ratio"] == 0
    assert log["tools/call_frequency"] == 1


def test_a_turn_is_cut_to_what_is_left_of_the_completion_and_the_context(tmp_path):
    def say(text, index):
        return "y" * 600 if turns_of(text) else call("add", a=1, b=1)

    seen, log, _ = run(tmp_path / "budget", say, [add], max_completion_length=200)
    assert {len(ids) for ids in seen["completion_ids"]} == {200}
    assert log["completions/clipped_ratio"] == 1
    seen, log, trainer = run(tmp_path / "context", say, [add], max_completion_length=300, context=620)
    assert all(len(ids) <= 300 for ids in seen["completion_ids"])
    assert trainer.state.log_history[0]["completions/clipped_ratio"] == 1


def test_a_task_has_a_budget_of_its_own(tmp_path):
    keep = Keep()
    rows = chat_rows(2, task=["short", "long"])
    trainer = make_trainer(
        tmp_path, once(lambda index: "y" * 20 + call("add", a=1, b=2)), rows=rows, reward_funcs=keep, tools=[add],
        task_max_completion_length={"short": 90}, max_completion_length=200,
    )  # fmt: skip
    trainer.train()
    lengths = dict(zip(keep.seen[0]["task"], map(len, keep.seen[0]["completion_ids"]), strict=True))
    log = trainer.state.log_history[0]
    turns = {
        task: [message["role"] for message in one]
        for task, one in zip(keep.seen[0]["task"], keep.seen[0]["completions"], strict=True)
    }
    assert turns == {"short": ["assistant"], "long": ["assistant", "tool", "assistant"]}
    assert lengths["short"] <= 90 < lengths["long"]
    assert log["tasks/short/completions/clipped_ratio"] == log["tasks/long/completions/clipped_ratio"] == 0
    trainer = make_trainer(
        tmp_path, lambda text, index: "y" * 300, rows=rows, reward_funcs=keep, tools=[add],
        task_max_completion_length={"short": 90}, max_completion_length=200,
    )  # fmt: skip
    trainer.train()
    lengths = dict(zip(keep.seen[1]["task"], map(len, keep.seen[1]["completion_ids"]), strict=True))
    assert lengths == {"short": 90, "long": 200}
    assert trainer.state.log_history[0]["tasks/short/completions/clipped_ratio"] == 1
