"""What a run writes and shows: metrics, tables, the model card."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from runs import ROWS, make_trainer, steps_of


def test_tables_are_typed_whole_and_never_stale(tmp_path):
    def notes(completions, log_extra, trainer_state, **kwargs):
        if trainer_state.global_step == 0:
            log_extra("first", list(range(len(completions))))
        log_extra("mixed", [1, "a"] * (len(completions) // 2))
        log_extra("length", [len(text) for text in completions])
        return [0.0] * len(completions)

    options = {"eval_rows": ROWS[:6], "eval_strategy": "steps", "eval_steps": 1, "log_completions": True}
    make_trainer(tmp_path, notes, **options, num_completions_to_print=0).train()
    folder = tmp_path / "completions"
    assert sorted(file.name for file in folder.iterdir()) == [
        "eval_00001.parquet",
        "eval_00002.parquet",
        "train_00001.parquet",
        "train_00002.parquet",
    ]
    first, second = (pq.read_table(folder / f"train_0000{n}.parquet") for n in (1, 2))
    assert "first" in first.column_names
    assert "first" not in second.column_names
    assert first.schema.field("length").type == pa.int64()
    assert first.schema.field("advantage").type == pa.float64()
    assert first.schema.field("mixed").type == pa.string()
    rows = second.to_pylist()
    assert [row["length"] for row in rows] == [len(row["completion"]) for row in rows]
    assert [row["step"] for row in rows] == [1] * 8
    evaluated = pq.read_table(folder / "eval_00002.parquet").to_pylist()
    assert len(evaluated) == 24
    assert sorted({row["prompt"] for row in evaluated}) == sorted(row["prompt"] for row in ROWS[:6])


def test_printing_shows_the_asked_number_of_rows_and_changes_no_draw(tmp_path, capsys):
    def weights(folder, **options):
        trainer = make_trainer(folder, **options)
        trainer.train()
        return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])

    silent = weights(tmp_path / "a")
    capsys.readouterr()
    printed = weights(tmp_path / "b", log_completions=True, num_completions_to_print=2)
    assert torch.equal(silent, printed)
    shown = capsys.readouterr().out
    assert shown.count("train step 1") == 1
    assert shown.count("├") == 2


def test_one_row_a_prompt_is_shown_when_asked_and_all_are_kept(tmp_path, capsys):
    make_trainer(tmp_path, log_completions=True, log_unique_prompts=True, max_steps=1).train()
    rows = pq.read_table(tmp_path / "completions" / "train_00001.parquet").to_pylist()
    assert len(rows) == 8
    printed = capsys.readouterr().out
    assert [printed.count(prompt) for prompt in {row["prompt"] for row in rows}] == [1, 1]


def test_several_evaluation_sets_log_under_their_names(tmp_path):
    from datasets import Dataset

    trainer = make_trainer(tmp_path, eval_rows=ROWS[:2])
    trainer.eval_dataset = {"small": Dataset.from_list(ROWS[:2]), "big": Dataset.from_list(ROWS[:4])}
    found = trainer.evaluate()
    assert {"eval_small_reward", "eval_big_reward", "eval_small_loss"} <= set(found)
    assert "eval_reward" not in found


def test_metrics_say_what_happened(tmp_path):
    make_trainer(tmp_path, max_steps=1).train()
    step = steps_of(tmp_path)[0]
    assert step["num_tokens"] == 8 * 4 + 8 * step["completions/mean_length"]
    assert 1 <= step["completions/min_length"] <= step["completions/mean_length"] <= step["completions/max_length"] <= 8
    assert 0 <= step["completions/clipped_ratio"] <= 1
    assert step["entropy"] > 0
    assert {"clip_ratio/region_mean", "step_time", "frac_reward_zero_std", "rewards/count_digits/std"} <= step.keys()
    assert any(name.startswith("scoring/count_digits/latency") for name in step)


def test_a_model_card_is_written(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.train()
    trainer.create_model_card(model_name="tiny", tags="mine")
    text = (tmp_path / "README.md").read_text()
    assert all(tag in text for tag in ("grpo", "plaudit", "mine", "tiny"))
