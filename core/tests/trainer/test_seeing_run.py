"""A run file with a vision-language model and a dataset of images."""

from __future__ import annotations

import json

import pytest
from plaudit import cli
from seeing import make_seeing, rows

RUN = """
output_dir = "{folder}/run"

[model]
path = "{folder}/model"

[data]
path = "{data}"
eval_size = 2

[[reward]]
name = "{folder}/reward.py:letters"

[config]
use_cpu = true
num_generations = 4
per_device_train_batch_size = 8
max_completion_length = 6
max_steps = 2
logging_steps = 1
report_to = "none"
log_completions = true
num_completions_to_print = 0
"""
REWARD = """
def letters(prompts, completions, **columns):
    assert prompts[0][0]["content"][0]["image"].size
    return [float(len(completion[0]["content"]) % 3) for completion in completions]
"""


@pytest.mark.parametrize("kind", ["parquet", "folder"])
def test_a_run_file_trains_on_images(kind, tmp_path, capsys):
    from datasets import Dataset

    model, processor = make_seeing("LLaVA-NeXT")
    model.save_pretrained(tmp_path / "model")
    processor.save_pretrained(tmp_path / "model")
    (tmp_path / "reward.py").write_text(REWARD)
    dataset, place = Dataset.from_list(rows(8)), tmp_path / ("data" if kind == "folder" else "data.parquet")
    if kind == "folder":
        dataset.save_to_disk(str(place))
    else:
        dataset.to_parquet(str(place))
    (tmp_path / "run.toml").write_text(RUN.format(folder=tmp_path, data=place))
    assert cli.main(["train", str(tmp_path / "run.toml")]) == 0, capsys.readouterr().err
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert sum("loss" in line for line in lines) >= 2
    assert (tmp_path / "run" / "model" / "processor_config.json").is_file()
