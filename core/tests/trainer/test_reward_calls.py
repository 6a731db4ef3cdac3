"""How the trainer calls rewards, and what their scores come to."""

from __future__ import annotations

import asyncio
import math
import threading

import pyarrow.parquet as pq
import pytest
from plaudit.scoring.errors import ScoringPaused

from runs import ROWS, count_digits, make_trainer, steps_of


def test_rewards_are_called_as_trl_calls_them(tmp_path):
    seen = {}

    def watch(prompts, completions, completion_ids, trainer_state, answer, log_extra, log_metric, **rest):
        seen.setdefault(trainer_state.global_step, (prompts, completions, completion_ids, answer, rest))
        return [0.5] * len(prompts)

    make_trainer(tmp_path, watch, rows=[{**row, "task": "sum"} for row in ROWS]).train()
    assert sorted(seen) == [0, 1]
    prompts, completions, ids, answers, rest = seen[0]
    assert len(prompts) == len(completions) == len(ids) == len(answers) == 8
    assert prompts[:4] == [prompts[0]] * 4
    assert prompts[4:] == [prompts[4]] * 4 != prompts[:4]
    assert all(eval(prompt[:-1]) == int(answer) for prompt, answer in zip(prompts, answers, strict=True))
    assert all(isinstance(token, int) for token in ids[0])
    assert rest == {"task": ["sum"] * 8}


def test_abstaining_rewards_leave_baseline_and_advantage(tmp_path):
    def some(completion_ids, **kwargs):
        return [None, 1.0, 0.0, 0.0] * 2

    make_trainer(tmp_path, some, max_steps=1, log_completions=True, num_completions_to_print=0).train()
    table = pq.read_table(tmp_path / "completions" / "train_00001.parquet").to_pylist()
    spread = math.sqrt(1 / 3) + 1e-4
    expected = [0.0, (2 / 3) / spread, -(1 / 3) / spread, -(1 / 3) / spread] * 2
    assert [row["advantage"] for row in table] == pytest.approx(expected, rel=1e-4)
    step = steps_of(tmp_path)[0]
    assert step["reward"] == pytest.approx(1 / 3)
    assert step["rewards/unscored"] == 2
    assert step["frac_group_zero_std"] == 0


def test_weights_and_equal_names_are_kept_apart(tmp_path):
    rewards = [lambda completions, **k: [1.0] * len(completions), lambda completions, **k: [0.0] * len(completions)]
    make_trainer(tmp_path, rewards, max_steps=1, reward_weights=[0.7, 0.3]).train()
    step = steps_of(tmp_path)[0]
    means = {name: value for name, value in step.items() if name.startswith("rewards/") and name.endswith("/mean")}
    assert sorted(means.values()) == [0.0, 1.0]
    assert step["reward"] == pytest.approx(0.7)
    assert len(rewards) == 2


def test_scoring_runs_beside_each_other_and_async_on_one_loop(tmp_path):
    meet = threading.Barrier(2, timeout=20)

    def one(completions, **kwargs):
        meet.wait()
        return [0.0] * len(completions)

    def two(completions, **kwargs):
        meet.wait()
        return [0.0] * len(completions)

    async def three(completions, **kwargs):
        await asyncio.sleep(0)
        return [float(len(text)) for text in completions]

    make_trainer(tmp_path, [one, two, three], max_steps=1).train()
    assert steps_of(tmp_path)[0]["rewards/three/mean"] > 0


def test_too_many_unscored_rollouts_pause_the_run_at_a_checkpoint(tmp_path):
    broken = {"now": True}

    def fails(completions, trainer_state, **kwargs):
        if broken["now"] and trainer_state.global_step == 2:
            raise ConnectionError("service is down")
        return count_digits(completions)

    options = {"max_steps": 4, "save_strategy": "steps", "save_steps": 100}
    with pytest.raises(ScoringPaused, match="no score"):
        make_trainer(tmp_path, fails, **options).train()
    broken["now"] = False
    again = make_trainer(tmp_path, fails, **options)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.state.global_step == 4
    assert [line["step"] for line in steps_of(tmp_path)] == [1, 2, 3, 4]


def test_unused_columns_are_kept_from_rewards_when_asked(tmp_path):
    seen = set()

    def look(completions, **columns):
        seen.update(columns)
        return [0.0] * len(completions)

    make_trainer(tmp_path, look, remove_unused_columns=True, max_steps=1).train()
    assert "answer" not in seen
    assert "prompts" in seen
