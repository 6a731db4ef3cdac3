"""Environments: reset, tools, rewards, pooling, failures, routing and bad input."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time
from typing import ClassVar

import pytest
from datasets import Dataset
from plaudit.errors import UsageError
from plaudit.rollout.agent import EnvironmentSpec
from plaudit.rollout.agent.resets import ResetError
from scripted import Keep, call, chat_rows, make_trainer, turns_of


class Counter:
    """Counts up to a target that it draws itself."""

    made: ClassVar[list] = []

    def __init__(self):
        self.closed = 0
        self.resets: list[dict] = []
        type(self).made.append(self)

    def reset(self, **row):
        self.resets.append(row)
        self.count = 0
        return f"Count to {3}."

    def increment(self, step: int) -> int:
        """Add to the counter.

        Args:
            step: How much.

        Returns:
            The counter.
        """
        self.count += step
        return self.count

    def get_reward(self) -> float:
        return float(self.count == 3)

    def close(self):
        self.closed += 1

    def _hidden(self):
        pass

    @property
    def expensive(self):
        raise AssertionError("a property was read")


@pytest.fixture(autouse=True)
def none_made():
    Counter.made = []


def count_up(text, index):
    """Rollout 0 of each prompt counts to 3, the others to 1."""
    turns = turns_of(text)
    return "done" if turns == (3 if index % 4 == 0 else 1) else call("increment", step=1)


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


class Words:
    """Another environment, with asynchronous parts and a listed tool."""

    tools = ("spell",)

    def __init__(self):
        self.closed = 0

    async def reset(self, **row):
        self.row = row
        return "Spell it."

    async def spell(self, word: str) -> str:
        """Spell a word.

        Args:
            word: The word.
        """
        await asyncio.sleep(0)
        return "-".join(word)

    def helper(self):
        return "no tool: it is not listed"

    async def get_reward(self):
        return 0.5

    async def close(self):
        self.closed += 1


def test_rows_choose_among_several_and_see_only_their_own_tools(tmp_path):
    def lookup(key: str) -> str:
        """Look something up.

        Args:
            key: What.
        """
        return f"entry {key}"

    def say(text, index):
        if turns_of(text):
            return "done"
        head = text.split("<|im_end|>")[0]
        assert ('"name": "increment"' in head) != ('"name": "spell"' in head)
        assert '"name": "lookup"' in head
        assert "helper" not in head
        return call("lookup", key="k") + call("spell", word="ab") + call("increment", step=3)

    keep = Keep()
    rows = Dataset.from_dict({"environment": ["counter", "words"] * 4})
    trainer = make_trainer(
        tmp_path, say, rows=rows, reward_funcs=keep, environment_factory={"counter": Counter, "words": Words},
        tools=[lookup], max_steps=4,
    )  # fmt: skip
    trainer.train()
    kinds = set()
    for seen in keep.seen:
        for name, environment, completion in zip(
            seen["environment"], seen["environments"], seen["completions"], strict=True
        ):
            kinds.add(name)
            first, spelt, counted = [message["content"] for message in completion[1:4]]
            assert first == "entry k"
            if name == "words":
                assert type(environment) is Words
                assert "environment" not in environment.row
                assert (spelt, "no tool 'increment'" in counted) == ("a-b", True)
            else:
                assert ("no tool 'spell'" in spelt, counted) == (True, "3")
    assert kinds == {"counter", "words"}
    assert all(environment.closed == 1 for seen in keep.seen for environment in seen["environments"])
    for log in trainer.state.log_history[:4]:
        assert log.get("rewards/Words/mean", 0.5) == 0.5
        assert log.get("rewards/Counter/mean", 1.0) == 1.0


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


class Flaky(Counter):
    """Fails where a row says so."""

    def reset(self, fails, **row):
        self.count = 0
        if fails == "raise":
            raise KeyError("no such task")
        if fails == "hang":
            time.sleep(60)
        return {"wrong": 3}["wrong"] if fails == "wrong" else None


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        ("raise", "reset failed: KeyError"),
        ("wrong", "reset gave a int"),
        ("hang", "reset failed: no answer within timeout_s = 0.3"),
    ],
)
def test_a_reset_that_fails_costs_its_rollout_alone(tmp_path, caplog, fails, message):
    keep = Keep()
    rows = chat_rows(2, fails=["", fails])
    spec = EnvironmentSpec(Flaky, reset_timeout_s=0.3, retries=0)
    trainer = make_trainer(tmp_path, count_up, rows=rows, reward_funcs=keep, environment_factory=spec)
    with caplog.at_level(logging.WARNING, "plaudit.rollout"):
        trainer.train()
    assert len(keep.seen[0]["completions"]) == 4
    assert trainer.state.log_history[0]["rewards/unscored"] == 4
    assert trainer.state.log_history[0]["env/aborted"] == 0.5
    assert f"4 of 8 rollouts are given up: environment 'Flaky': {message}" in caplog.text
    assert all(one.closed == 1 for one in Flaky.made if hasattr(one, "count"))
    with pytest.raises(ResetError, match="Flaky"):
        make_trainer(
            tmp_path, count_up, rows=rows, environment_factory=EnvironmentSpec(
                Flaky, reset_timeout_s=0.3, retries=0, on_error="raise")
        ).train()  # fmt: skip


def test_a_reset_that_lost_its_connection_is_made_again(tmp_path):
    class Reconnects(Counter):
        lost = 0

        def reset(self, **row):
            type(self).lost += 1
            if type(self).lost <= 3:
                raise ConnectionError("gone")
            return super().reset(**row)

    spec = EnvironmentSpec(Reconnects, backoff_s=0.01)
    trainer = make_trainer(tmp_path, count_up, environment_factory=spec)
    trainer.train()
    assert trainer.state.log_history[0]["env/aborted"] == 0
    assert Reconnects.lost == 8 + 3


def test_an_instance_that_cannot_be_made_costs_one_rollout(tmp_path):
    class Scarce(Counter):
        def __init__(self):
            super().__init__()
            if len(self.made) == 3:
                raise RuntimeError("no more")

    trainer = make_trainer(tmp_path, count_up, environment_factory=Scarce)
    trainer.train()
    assert trainer.state.log_history[0]["rewards/unscored"] == 1


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


def test_an_instance_that_a_call_may_still_be_at_work_on_is_not_used_again(tmp_path):
    release = threading.Event()

    class Stuck(Counter):
        def increment(self, step: int) -> int:
            """Hang.

            Args:
                step: Of whom.
            """
            if step == 1:
                release.wait(30)
            return 0

    spec = EnvironmentSpec(Stuck, timeout_s=0.2)
    say = lambda text, index: "" if turns_of(text) else call("increment", step=int(index == 3))  # noqa: E731
    make_trainer(tmp_path, say, environment_factory=spec, max_steps=2).train()
    release.set()
    assert sorted(len(one.resets) for one in Stuck.made) == [1, 1, 2, 2, 2, 2, 2, 2, 2]
    assert all(one.closed == 1 for one in Stuck.made)


def test_environments_are_closed_when_a_run_fails(tmp_path):
    def say(text, index):
        raise RuntimeError("the generator broke")

    with pytest.raises(RuntimeError, match="the generator broke"):
        make_trainer(tmp_path, say, environment_factory=Counter).train()
    assert len(Counter.made) == 8
    assert all(one.closed == 1 for one in Counter.made)


def test_environments_are_closed_when_a_trainer_is_forgotten_or_cannot_be_made(tmp_path):
    trainer = make_trainer(tmp_path, count_up, environment_factory=Counter)
    trainer.generate_completions([{"prompt": [{"role": "user", "content": ""}]}], num_generations=2)
    assert [one.closed for one in Counter.made] == [0, 0]
    del trainer
    gc.collect()
    assert [one.closed for one in Counter.made] == [1, 1]
    with pytest.raises(UsageError):
        make_trainer(tmp_path, count_up, environment_factory={"a": Counter, "b": object})
    gc.collect()
    assert all(one.closed == 1 for one in Counter.made)


def test_environments_are_closed_when_the_program_ends(tmp_path):
    program = f"""
import sys
sys.path.insert(0, {str(__import__("pathlib").Path(__file__).parent)!r})
from scripted import make_trainer
class Env:
    def reset(self): return "go"
    def get_reward(self): return 1.0
    async def close(self): print("closed", flush=True)
trainer = make_trainer({str(tmp_path)!r}, lambda text, index: "x", environment_factory=Env)
trainer.generate_completions([{{"prompt": [{{"role": "user", "content": ""}}]}}], num_generations=2)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250)
    assert done.stdout.count("closed") == 2, done.stderr[-2000:]


class NoReset:
    pass


class Raises:
    def __init__(self):
        raise OSError("no display")


class Untyped(Counter):
    def go(self, there):
        """Go.

        Args:
            there: Where.
        """


class Undocumented(Counter):
    def go(self, there: str) -> str:
        return there


class Needs(Counter):
    def reset(self, target):
        pass


class Lists(Counter):
    tools = ("increment", "jump")


ROUTED = {"a": Counter}


@pytest.mark.parametrize(
    ("environment", "more", "message"),
    [
        (NoReset, {}, "environment 'NoReset' has no reset"),
        (Raises, {}, "environment 'Raises' cannot be made: its __init__ failed: OSError: no display"),
        (Untyped, {}, "environment 'Untyped': tool 'go'"),
        (Undocumented, {}, "environment 'Undocumented': tool 'go' has no docstring"),
        (Needs, {"rows": chat_rows()}, "reset needs the column 'target'"),
        (Lists, {}, "environment 'Lists' has no tool 'jump'; its public methods: increment"),
        (EnvironmentSpec(Counter, tools=("reset",)), {}, "has no tool 'reset'"),
        (3, {}, "the environment 3 is a int"),
        ({}, {}, "environment_factory is empty"),
        (Counter, {"max_steps": -1}, "set max_steps"),
        (ROUTED, {}, "needs a column 'environment' that names one of 'a'"),
        (ROUTED, {"rows": chat_rows()}, "no column 'environment'"),
        (ROUTED, {"rows": chat_rows(2, environment=["a", "b"])}, "environment = 'b'; there are: 'a'"),
        (ROUTED, {"rows": Dataset.from_dict({"environment": ["a", None]})}, "environment = None; there are: 'a'"),
        (Counter, {"tools": [Counter().increment]}, "two tools are called 'increment'"),
        (Counter, {"rows": [{"prompt": "text"}] * 2}, "prompts are text"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_named_before_a_model_is_loaded(tmp_path, environment, more, message):
    with pytest.raises(UsageError, match=message):
        make_trainer(tmp_path, None, environment_factory=environment, **more)


def test_without_any_reward_the_reward_is_what_is_missing(tmp_path):
    class Scoreless(Counter):
        get_reward = None

    with pytest.raises(UsageError, match="reward_funcs is missing"):
        make_trainer(tmp_path, count_up, environment_factory=Scoreless)


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
