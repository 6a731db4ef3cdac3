"""Environments that fail: what it costs, and that they are closed however a run ends."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import time

import pytest
from counter import Counter, count_up
from plaudit.errors import UsageError
from plaudit.rollout.agent import EnvironmentSpec
from plaudit.rollout.agent.resets import ResetError
from scripted import Keep, call, chat_rows, make_trainer, turns_of


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


OBSERVATIONS = {
    "a dict": ({"a": 1}, "reset gave a dict; expected text, messages, content blocks or None"),
    "a pair": (("seen", {}), "reset gave a tuple; expected"),
    "numbers": ([1, 2], "reset gave a list with other things; expected"),
    "text beside a message": ([{"role": "user", "content": "a"}, "b"], "reset gave a list with other things"),
    "a message of nothing": ([{"role": "user"}], "reset gave a message with the content None"),
    "a role that is none": ([{"role": 1, "content": "a"}], "reset gave a message of role 1"),
    "an image": ([{"type": "image", "image": 1}], "what reset gave cannot be rendered: UsageError: a message of role"),
}


class Gives(Counter):
    def reset(self, what):
        self.count = 0
        return OBSERVATIONS[what][0] if what else None


@pytest.mark.parametrize("what", OBSERVATIONS)
def test_an_observation_that_cannot_be_costs_its_rollouts_alone(tmp_path, caplog, what):
    keep = Keep()
    rows = chat_rows(2, what=["", what])
    with caplog.at_level(logging.WARNING, "plaudit.rollout"):
        make_trainer(tmp_path, count_up, rows=rows, reward_funcs=keep, environment_factory=Gives).train()
    assert keep.seen[0]["what"] == [""] * 4
    assert f"4 of 8 rollouts are given up: environment 'Gives': {OBSERVATIONS[what][1]}" in caplog.text
    with pytest.raises(ResetError, match="Gives"):
        make_trainer(
            tmp_path, count_up, rows=rows, environment_factory=EnvironmentSpec(Gives, on_error="raise")
        ).train()


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
