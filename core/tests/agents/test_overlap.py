"""Environments and tools in rollouts that are written beside training."""

from __future__ import annotations

import threading

import pytest
from datasets import Dataset
from plaudit.grpo import assembly
from scripted import Script, call, chat_rows, make_trainer, turns_of


class Adder:
    """Adds what it is told to; reset, tools and reward note which thread's rollouts they belong to."""

    resets = 0

    def reset(self, **row):
        type(self).resets += 1
        self.total = 0
        return "Add to 3."

    def add(self, number: int) -> int:
        """Add a number.

        Args:
            number: Which.

        Returns:
            The total.
        """
        self.total += number
        return self.total

    def get_reward(self) -> float:
        return float(self.total == 3)


class Told(Adder):
    """Reads the number out of what is said."""

    tools = ()

    async def answer_turn(self, message):
        return None if message["content"] == "done" else str(self.add(int(message["content"])))


def calls(text, index):
    return call("add", number=3 if index % 2 else 1) if turns_of(text) == 0 else "done"


def tells(text, index):
    return str(3 if index % 2 else 1) if turns_of(text) == 0 else "done"


@pytest.mark.parametrize(("environment", "say", "called"), [(Adder, calls, 1.0), (Told, tells, None)])
def test_environments_work_as_in_turn(tmp_path, monkeypatch, environment, say, called):
    def run(folder, **options):
        environment.resets = 0
        threads = set()

        def before(index):
            threads.add(threading.current_thread().name)

        server = {"use_vllm": True, "vllm_mode": "server", "max_steps": 3, "learning_rate": 0.0, **options}
        monkeypatch.setattr(assembly, "build_generator", lambda *_: Script(None, say))
        trainer = make_trainer(
            folder, say, before=before, rows=Dataset.from_list(chat_rows()), environment_factory=environment, **server
        )
        trainer.source.collector.writer.generator.exact = False
        trainer.train()
        found = [line for line in trainer.state.log_history if "reward" in line]
        return [(line["reward"], line.get("tools/call_frequency")) for line in found], environment.resets, threads

    in_turn, resets, here = run(tmp_path / "turn")
    beside, resets_beside, elsewhere = run(tmp_path / "beside", max_staleness=1)
    assert in_turn == beside == [(0.5, called)] * 3
    assert resets == resets_beside == 3 * 8
    assert "MainThread" in here
    assert elsewhere == {"plaudit-overlap"}
