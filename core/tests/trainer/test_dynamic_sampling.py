"""Groups that teach nothing are replaced by the prompts that follow (DAPO)."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
import torch
from plaudit.grpo.checking.checks import ConfigError
from plaudit.grpo.generating.dynamic_sampling import merged_tables
from plaudit.scoring.table import ScoreTable

from runs import ROWS, count_digits, make_trainer, metrics_of

OPTIONS = {"dynamic_sampling": True, "shuffle_dataset": False, "log_completions": True, "num_completions_to_print": 0}


def dull(prompts, completions, log_extra, log_metric, **kwargs):
    """Prompts that begin with 0 or 2 teach nothing."""
    log_extra("copy", list(prompts))
    log_metric("judged", float(len(prompts)))
    varied = count_digits(completions)
    return [0.0 if prompt[0] in "02" else place + value for place, (prompt, value) in enumerate(zip(prompts, varied))]  # noqa: B905


def tables(folder, steps):
    return [
        pq.read_table(folder / "completions" / f"train_{step:05}.parquet").to_pydict() for step in range(1, steps + 1)
    ]


def test_fresh_prompts_take_the_places_of_idle_groups(tmp_path):
    trainer = make_trainer(tmp_path, dull, **OPTIONS, max_steps=3)
    trainer.train()
    prompts = [row["prompt"] for row in ROWS]  # four that begin with 0, four with 1, …
    learnt = [list(dict.fromkeys(table["prompt"])) for table in tables(tmp_path, 3)]
    # 0+0 0+1, 0+2 0+3, then 1+0 1+1; the second batch finds two at once; the third runs into four dull ones.
    assert learnt == [prompts[4:6], prompts[6:8], prompts[12:14]]
    assert trainer.source.dynamic.starts == [0, 6, 8, 14]
    for table in tables(tmp_path, 3):
        assert table["copy"] == table["prompt"]
        assert all(advantage != 0 for advantage in table["advantage"])
    lines = [line for line in metrics_of(tmp_path) if "loss" in line]
    assert [line["dynamic_sampling/rounds"] for line in lines] == [2, 0, 2]
    assert [line["dynamic_sampling/replaced_groups"] for line in lines] == [4, 0, 4]
    assert [line["dynamic_sampling/discarded_tokens"] > 0 for line in lines] == [True, False, True]
    assert [line["frac_group_zero_std"] for line in lines] == [0, 0, 0]


def test_one_group_alone_is_replaced_and_the_limit_holds(tmp_path):
    rows = [ROWS[4], ROWS[0], ROWS[8], ROWS[1], ROWS[5], ROWS[6]]  # 1… teaches, then three that do not
    trainer = make_trainer(tmp_path, dull, **OPTIONS, rows=rows, max_steps=1, dynamic_sampling_max_rounds=2)
    trainer.train()
    (table,) = tables(tmp_path, 1)
    assert list(dict.fromkeys(table["prompt"])) == [ROWS[4]["prompt"], ROWS[1]["prompt"]]
    assert trainer.source.dynamic.starts == [0, 4]
    (line,) = [line for line in metrics_of(tmp_path) if "loss" in line]
    assert line["frac_group_zero_std"] == 0.5
    assert line["judged"] == pytest.approx((8 + 4 + 4) / 3)  # rewards also judged what was thrown away


def test_off_by_default_and_without_idle_groups_nothing_changes(tmp_path):
    found = []
    for name, asked in (("off", False), ("on", True)):
        trainer = make_trainer(
            tmp_path / name, lambda completions, **_: list(range(len(completions))), dynamic_sampling=asked
        )
        trainer.train()
        found.append(torch.cat([parameter.flatten() for parameter in trainer.model.parameters()]))
    assert torch.equal(*found)


@pytest.mark.parametrize(
    "shape", [{}, {"per_device_train_batch_size": 4, "steps_per_generation": 4, "num_iterations": 2}]
)
def test_a_resumed_run_takes_the_prompts_that_come_next(tmp_path, shape):
    options = {"dynamic_sampling": True, "max_steps": 6, "save_strategy": "steps", "save_steps": 3, **shape}
    whole = make_trainer(tmp_path, dull, **options)
    whole.train()
    rest = make_trainer(tmp_path, dull, **options)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert rest.source.dynamic.starts == whole.source.dynamic.starts
    for one, other in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("ahead", ["reward_lookahead", "max_staleness"])
def test_writing_ahead_of_scores_is_refused(tmp_path, ahead):
    with pytest.raises(ConfigError, match=f"{ahead} writes ahead"):
        make_trainer(tmp_path, **{"dynamic_sampling": True, ahead: 1})


def test_merged_tables_keep_every_column_at_its_place():
    kept = ScoreTable(
        ("r",), (1.0,), ((1.0,), (2.0,), (3.0,)), frozenset({0, 1}), {"a": (1, 2, 3)}, {},
        {"r/failure_total": 1.0, "r/latency_max_s": 2.0},
        (), {"m": (3.0, 2)},
    )  # fmt: skip
    fresh = ScoreTable(
        ("r",), (1.0,), ((7.0,), (8.0,)), frozenset({1}), {"b": (5, 6)}, {},
        {"r/failure_total": 2.0, "r/latency_max_s": 1.0},
        (), {"m": (9.0, 1), "n": (4.0, 2)},
    )  # fmt: skip
    merged = merged_tables(kept, fresh, [0, 2])
    assert merged.scores == ((7.0,), (2.0,), (8.0,))
    assert merged.dropped == {1, 2}
    assert merged.columns == {"a": (None, 2, None), "b": (5, None, 6)}
    assert merged.metric_sums == {"m": (12.0, 3), "n": (4.0, 2)}
    assert merged.metrics == {"m": 4.0, "n": 2.0}
    assert merged.runtime == {"r/failure_total": 3.0, "r/latency_max_s": 2.0}
