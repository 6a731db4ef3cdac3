"""Rewards in TRL's own trainers: scores, weights, metrics and the table of completions."""

from __future__ import annotations

import asyncio
import json

import pytest
from plaudit import Verdict, verifier
from plaudit.bridges.trl import reward_func


@verifier
def seldom(completion, reference, level):
    """Says more of some completions than of others, and of different types."""
    if level == 2:
        raise RuntimeError("broken on level 2")
    return Verdict(float(level), reason="odd" if level % 2 else "", columns={"seen": level if level else "none"})


@pytest.mark.peer
@pytest.mark.parametrize("trainer", ["GRPO", "RLOO"])
def test_it_runs_in_trls_trainers(tmp_path, model_folder, trainer):
    import pandas
    import trl
    from datasets import Dataset

    def length(completions, **columns):
        return [float(len(one[0]["content"])) for one in completions]

    args = getattr(trl, f"{trainer}Config")(
        output_dir=str(tmp_path),
        use_cpu=True,
        bf16=False,
        num_generations=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        max_completion_length=4,
        max_steps=2,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=1,
        eval_on_start=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        log_completions=True,
        num_completions_to_print=0,
        shuffle_dataset=False,
        reward_weights=[0.5, 0.0, 0.0],
    )
    rows = [{"prompt": [{"role": "user", "content": "a"}], "answer": "b", "level": level} for level in range(4)]
    trained = getattr(trl, f"{trainer}Trainer")(
        model=str(model_folder),
        reward_funcs=[reward_func(seldom, name="ours"), reward_func(later_of_messages, name="later"), length],
        args=args,
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[2:]),
    )
    trained.train()
    first, second = (line for line in trained.state.log_history if "rewards/ours/mean" in line)
    assert (first["rewards/ours/mean"], first["reward"]) == pytest.approx((0.5, 0.25))
    assert (second["rewards/ours/mean"], second["rewards/length/mean"] >= 0) == (3.0, True)
    if trainer == "GRPO":  # the other one hands no log_extra over
        table = pandas.read_parquet(tmp_path / "completions" / "completions_00002.parquet")
        shown = json.loads(table.to_json(orient="records"))
        for row in shown:
            failed = row["ours"] is None
            assert (row["ours/seen"], row["ours/reason"]) == ((None, None) if failed else (3.0, "odd"))
            assert row["ours/failure"] == ("RuntimeError: broken on level 2" if failed else None)
        assert len(shown) == 4


async def later_of_messages(completions, **columns):
    await asyncio.sleep(0)
    return [None] * len(completions)
