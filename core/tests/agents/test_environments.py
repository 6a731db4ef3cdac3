"""Environments: reset, tools, rewards, pooling and routing."""

from __future__ import annotations

import asyncio
import time

import pytest
from counter import Counter, count_up
from scripted import Keep, call, chat_rows, make_trainer, turns_of


def test_an_environment_that_owns_its_data_needs_no_dataset_and_no_reward(tmp_path):
    """TRL's first example."""
    trainer = make_trainer(tmp_path, count_up, environment_factory=Counter, max_steps=2)
    trainer.train()
    for log in trainer.state.log_history[:2]:
        assert log["rewards/Counter/mean"] == pytest.approx(0.25)
        assert log["tools/call_frequency"] == pytest.approx((2 * 3 + 6) / 8)
        assert log["env/aborted"] == 0
    assert len(Counter.made) == 8, "instances are kept over steps"
    assert all(len(one.resets) == 2 and one.resets[0] == {} for one in Counter.made)
    assert [one.closed for one in Counter.made] == [1] * 8


def test_the_row_reaches_reset_and_the_observation_the_last_message(tmp_path):
    class Tasks(Counter):
        async def reset(self, target, **row):
            self.count, self.target, self.row = 0, target, row
            return None if target == 0 else f" (target {target})"

        def get_reward(self):
            return float(self.target)

    keep = Keep()
    rows = chat_rows(target=[0, 1, 2, 3])
    trainer = make_trainer(tmp_path, count_up, rows=rows, reward_funcs=keep, environment_factory=Tasks)
    trainer.train()
    seen = keep.seen[0]
    for prompt, environment, target, reward in zip(
        seen["prompts"], seen["environments"], seen["target"], [0] * 8, strict=True
    ):
        assert type(environment) is Tasks
        assert environment.target == target
        question = prompt[-1]["content"]
        assert question.endswith(f" (target {target})") == bool(target)
        assert environment.row["prompt"][0]["content"] == question.removesuffix(f" (target {target})")
        assert reward == 0
    assert rows == chat_rows(target=[0, 1, 2, 3]), "the dataset is left as it is"
    assert set(trainer.state.log_history[0]) >= {"rewards/keep/mean", "rewards/Tasks/mean"}


def test_a_column_that_reset_does_not_take_is_left_out(tmp_path):
    class Plain(Counter):
        def reset(self):
            self.count = 0

    make_trainer(tmp_path, count_up, rows=chat_rows(more=[1, 2, 3, 4]), environment_factory=Plain).train()
    assert len(Plain.made) == 8


@pytest.mark.parametrize(
    ("prompt", "observation", "expected"),
    [
        ("ask", " more", [{"role": "user", "content": "ask more"}]),
        ("ask", None, [{"role": "user", "content": "ask"}]),
        ("ask", [{"type": "text", "text": "b"}],
         [{"role": "user", "content": [{"type": "text", "text": "ask"}, {"type": "text", "text": "b"}]}]),
        ([{"type": "text", "text": "a"}], "b",
         [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
        ("ask", [{"role": "user", "content": "b"}],
         [{"role": "user", "content": "ask"}, {"role": "user", "content": "b"}]),
        ("", [{"role": "system", "content": "s"}, {"role": "user", "content": "b"}],
         [{"role": "system", "content": "s"}, {"role": "user", "content": "b"}]),
    ],
)  # fmt: skip
def test_where_an_observation_goes(prompt, observation, expected):
    from plaudit.rollout.agent.resets import observed

    given = [{"role": "user", "content": prompt}]
    assert observed(given, observation) == expected
    assert given == [{"role": "user", "content": prompt}]


def test_resets_run_at_once(tmp_path):
    class Slow(Counter):
        def reset(self, **row):
            time.sleep(0.2)
            return super().reset(**row)

    class SlowAsync(Counter):
        async def reset(self, **row):
            await asyncio.sleep(0.2)
            return super().reset(**row)

    for made in (Slow, SlowAsync):
        trainer = make_trainer(tmp_path, lambda text, index: "x", environment_factory=made)
        trainer.train()
        assert trainer.state.log_history[0]["env/reset_s"] == pytest.approx(0.2, abs=0.19)
        assert trainer.state.log_history[0]["step_time"] < 8 * 0.2


def test_methods_of_one_environment_run_one_after_another(tmp_path):
    class Busy(Counter):
        async def work(self, step: int) -> str:
            """Work.

            Args:
                step: Which.
            """
            before, self.count = self.count, self.count + 1
            await asyncio.sleep(0.01)
            return f"{step}: {before}"

    keep = Keep()
    say = lambda text, index: "" if turns_of(text) else "".join(call("work", step=step) for step in range(3))  # noqa: E731
    make_trainer(tmp_path, say, reward_funcs=keep, environment_factory=Busy).train()
    for completion in keep.seen[0]["completions"]:
        assert [message["content"] for message in completion[1:4]] == ["0: 0", "1: 1", "2: 2"]


def test_the_rollouts_of_a_group_get_one_seed_and_other_groups_another(tmp_path):
    class Seeded(Counter):
        def reset(self, seed, **row):
            self.count, self.seed = 0, seed
            return f"seed {seed}"

    def seeds(**more):
        keep = Keep()
        make_trainer(tmp_path, count_up, reward_funcs=keep, environment_factory=Seeded, max_steps=2, **more).train()
        return [[environment.seed for environment in seen["environments"]] for seen in keep.seen]

    class Note(Keep):
        def __call__(self, completions, environments, **given):
            found.append([environment.seed for environment in environments])
            return [0.0] * len(completions)

    found: list[list[int]] = []
    make_trainer(tmp_path, count_up, reward_funcs=Note(), environment_factory=Seeded, max_steps=2).train()
    first = list(found)
    for batch in first:
        assert len(set(batch[:4])) == len(set(batch[4:])) == 1
    assert len({seed for batch in first for seed in batch}) == 4
    found.clear()
    make_trainer(tmp_path, count_up, reward_funcs=Note(), environment_factory=Seeded, max_steps=2).train()
    assert found == first
    found.clear()
    make_trainer(tmp_path, count_up, reward_funcs=Note(), environment_factory=Seeded, max_steps=2, seed=7).train()
    assert found != first


def test_the_callers_rewards_are_left_alone(tmp_path):
    rewards = [Keep()]
    for _ in range(2):
        make_trainer(
            tmp_path, count_up, reward_funcs=rewards, environment_factory=Counter, reward_weights=[2.0]
        ).train()
        assert len(rewards) == 1


def test_empty_completions_train(tmp_path):
    trainer = make_trainer(tmp_path, lambda text, index: "", environment_factory=Counter)
    writer = trainer.source.collector.writer
    generate = writer.generator.generate
    from dataclasses import replace

    def nothing(requests, sampling):
        for made in generate(requests, sampling):
            yield replace(made, completion_ids=(), logprobs=())

    writer.generator.generate = nothing
    trainer.train()
    assert trainer.state.log_history[0]["completions/max_length"] == 0


def test_an_instance_is_held_until_its_rollout_is_scored(tmp_path):
    """With a batch ahead, two batches are under way at once."""

    class Held(Counter):
        def reset(self, **row):
            assert not getattr(self, "busy", False), "reset before its reward was asked for"
            self.busy = True
            return super().reset(**row)

        def get_reward(self):
            time.sleep(0.02)
            self.busy = False
            return super().get_reward()

    trainer = make_trainer(tmp_path, count_up, environment_factory=Held, max_steps=4, reward_lookahead=1)
    trainer.train()
    logs = trainer.state.log_history[:4]
    assert [log["env/aborted"] for log in logs] == [0] * 4
    assert [log["rewards/Held/mean"] for log in logs] == pytest.approx([0.25] * 4)
    assert len(Held.made) == 16
    assert all(one.closed == 1 for one in Held.made)


def test_evaluation_resets_environments_too(tmp_path):
    trainer = make_trainer(
        tmp_path, count_up, rows=chat_rows(), eval_dataset=chat_rows(2), environment_factory=Counter,
        num_generations_eval=4,
    )  # fmt: skip
    metrics = trainer.evaluate()
    assert metrics["eval_rewards/Counter/mean"] == pytest.approx(0.25)
    assert metrics["eval_tools/call_frequency"] == pytest.approx(1.5)
