"""`engine = "trl"` in a run file: what it trains and what it refuses."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
from plaudit import UsageError, verifier
from plaudit.cli import main


@verifier
def same(completion, reference):
    return completion == reference


RUN = """
engine = "trl"
output_dir = "{folder}"
[model]
path = "quickstart"
[data]
name = "quickstart:addition"
eval_split = "test"
eval_size = 8
[[reward]]
name = "addition"
[[reward]]
name = "think_answer_format"
weight = 0.1
[config]
num_generations = 4
per_device_train_batch_size = 8
max_completion_length = 40
learning_rate = 2e-4
max_steps = 2
logging_steps = 1
use_cpu = true
save_strategy = "no"
{more}
"""


@pytest.mark.peer
def test_a_run_file_trains_with_trl(tmp_path, capsys):
    run = tmp_path / "run.toml"
    run.write_text(RUN.format(folder=tmp_path / "out", more=""))
    assert main(["train", str(run)]) == 0
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "reward" in line] == [1, 2]
    assert {"rewards/addition/mean", "rewards/think_answer_format/mean"} <= lines[0].keys()
    assert (tmp_path / "out" / "model" / "model.safetensors").is_file()
    assert (tmp_path / "out" / "report.md").is_file()
    assert "after training" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("reward_lookahead = 1", "config.reward_lookahead is a field of this engine alone"),
        ("nonsense = 1", "unknown key 'nonsense'"),
    ],
)
def test_what_trl_cannot_do_is_refused_early(tmp_path, more, says, capsys):
    run = tmp_path / "run.toml"
    run.write_text(RUN.format(folder=tmp_path / "out", more=more))
    assert main(["train", str(run)]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reward", "config", "says"),
    [
        ({"weight": {"schedule": "adaptive"}}, {}, "adaptive weight"),
        ({"on_error": "drop_group"}, {"per_device_train_batch_size": 2}, "whole groups"),
        ({}, {"task_max_completion_length": {"sums": 9}}, "task 'sums' has a max_completion_length"),
        ({}, {"vllm_server_base_url": ["http://a", "http://b"]}, "TRL generates with one server"),
        ({}, {"num_generations": 3}, "TRL refuses the configuration"),
        ({}, {"reward_lookahead": 1}, "config.reward_lookahead is a field of this engine alone"),
        ({}, {"reward_lookahead": 0}, None),
        ({"weight": {"schedule": "linear", "start": 1.0, "end": 0.0, "steps": 9}}, {}, None),
        ({"on_error": "drop_group"}, {}, None),
    ],
)
def test_what_trls_trainer_cannot_do(reward, config, says):
    from plaudit.bridges.trl_engine import check_engine
    from plaudit.grpo import GRPOConfig
    from plaudit.scoring.spec import reward_specs

    asked = {"output_dir": "x", "use_cpu": True, **config}
    spec = replace(reward_specs([same])[0], **reward)
    made = GRPOConfig(output_dir="x", use_cpu=True)
    for name, value in config.items():  # past our own checks, as on several ranks
        setattr(made, name, value)
    with nullcontext() if says is None else pytest.raises(UsageError, match=says):
        check_engine(made, asked, [spec])
