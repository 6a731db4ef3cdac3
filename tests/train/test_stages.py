"""A run in two stages with an adapter, and `plaudit merge`, from the command line."""

from __future__ import annotations

import json

import pytest
from plaudit.cli import main

RUN = """
output_dir = "{folder}"
[model]
path = "quickstart"
[model.peft]
r = 4
target_modules = ["q_proj", "v_proj"]
[data]
name = "quickstart:addition"
eval_split = "test"
eval_size = 8
[[reward]]
name = "addition"
[[reward]]
name = "think_answer_format"
[config]
num_generations = 4
per_device_train_batch_size = 8
max_completion_length = 40
max_steps = 2
logging_steps = 1
use_cpu = true
save_strategy = "no"
[[stage]]
name = "form"
rewards = ["think_answer_format"]
[[stage]]
name = "sums"
config = {{ max_steps = 3, learning_rate = 1e-4 }}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stages")
    file = folder / "run.toml"
    file.write_text(RUN.format(folder=folder / "out"))
    assert main(["train", str(file)]) == 0
    return file


def test_the_second_stage_goes_on_from_the_first(run):
    out = run.parent / "out"
    assert (out / "1-form" / "merged" / "model.safetensors").is_file()
    assert str(out / "1-form" / "merged") in (out / "2-sums" / "run.toml").read_text()
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in lines if "reward" in line]
    assert steps == [1, 2, 3, 4, 5]
    assert "rewards/addition/mean" not in lines[0]
    assert "rewards/addition/mean" in lines[-2]
    assert (out / "curve.png").is_file()


def test_stages_that_are_done_are_not_trained_again(run, capsys):
    assert main(["train", str(run), "--resume"]) == 0
    assert "stage 1 of 2" not in capsys.readouterr().out
    assert main(["train", str(run)]) == 2
    assert "holds a run already" in capsys.readouterr().err


def test_the_adapter_of_the_last_stage_is_merged(run, tmp_path, capsys):
    from transformers import AutoModelForCausalLM

    adapter = run.parent / "out" / "2-sums" / "model"
    assert main(["merge", str(adapter), str(tmp_path / "whole")]) == 0
    AutoModelForCausalLM.from_pretrained(tmp_path / "whole")
    assert main(["merge", str(adapter), str(tmp_path / "whole")]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["merge", str(tmp_path), str(tmp_path / "other")]) == 2
    assert "holds no adapter" in capsys.readouterr().err
