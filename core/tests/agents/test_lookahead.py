"""Writing ahead of scores changes nothing for environments, columns, weights, tables and evaluation."""

from __future__ import annotations

import time

import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from scripted import call, chat_rows, make_trainer, turns_of

STEPS = 3


class Till:
    """Adds up what it is given; the row says what it should come to."""

    busy = 0

    def reset(self, target, **row):
        self.target, self.count = target, 0
        return f" (come to {target})"

    def add(self, amount: int) -> int:
        """Add to the till.

        Args:
            amount: How much.

        Returns:
            What is in it.
        """
        self.count += amount
        return self.count

    def get_reward(self) -> float:
        time.sleep(0.05)  # scores of a batch are missing when the next is written
        return float(self.count == self.target)


def say(text, index):
    """Rollout n of a group adds up to n."""
    return "done" if turns_of(text) == 1 else call("add", amount=index % 4)


def agrees(environments, target, log_extra, log_metric, **columns):
    """Judges by the environment beside the row it was reset with, after a while."""
    time.sleep(0.1)
    log_extra("till", [environment.count for environment in environments])
    log_metric("rows", float(len(target)))
    return [float(environment.target == wanted) for environment, wanted in zip(environments, target, strict=True)]


def run(folder, ahead):
    rows = chat_rows(8, target=[0, 1, 2, 3, 0, 1, 2, 3])
    trainer = make_trainer(
        folder, say, rows=Dataset.from_list(rows), eval_dataset=Dataset.from_list(rows[:2]), reward_funcs=agrees,
        environment_factory=Till, max_steps=STEPS, reward_lookahead=ahead, reward_weights=[0.25], log_completions=True,
        num_completions_to_print=0, eval_strategy="steps", eval_steps=2, vllm_importance_sampling_correction=False,
    )  # fmt: skip
    trainer.train()
    names = [f"train_{step:05}" for step in range(1, STEPS + 1)] + ["eval_00002"]
    tables = [pq.read_table(folder / "completions" / f"{name}.parquet").to_pydict() for name in names]
    return trainer, tables


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return [run(tmp_path_factory.mktemp(str(ahead)), ahead) for ahead in (0, 1)]


def test_every_rollout_is_judged_by_its_own_environment(runs):
    for trainer, tables in runs:
        logs = [log for log in trainer.state.log_history if "rewards/agrees/mean" in log]
        assert [log["rewards/agrees/mean"] for log in logs] == [1.0] * STEPS
        assert [log["rewards/Till/mean"] for log in logs] == [0.25] * STEPS
        assert [log["reward"] for log in logs] == pytest.approx([0.5] * STEPS)  # 0.25 x 1 + 1 x 0.25
        assert [log["rows"] for log in logs] == [8.0] * STEPS
        for table in tables:
            assert table["till"] == [0, 1, 2, 3] * 2
            assert [place % 4 == target for place, target in enumerate(targets(table))] == [
                r == 1 for r in table["Till"]
            ]


def targets(table):
    return [int(prompt[-1]["content"].split()[-1].rstrip(")")) for prompt in table["prompt"]]


def test_tables_are_those_of_a_run_in_step(runs):
    (_, in_step), (_, ahead) = runs
    for one, other in zip(in_step, ahead, strict=True):
        assert one == other
