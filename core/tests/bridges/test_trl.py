"""Rewards in TRL: the function by itself, in TRL's own trainer, and `engine = "trl"` in a run file."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from contextlib import nullcontext
from dataclasses import replace

import pytest
from plaudit import UsageError, verifier
from plaudit.bridges.trl import group_size, reward_func
from plaudit.cli import main


def ask(function, completions, **columns):
    prompts = columns.pop("prompts", ["p"] * len(completions))
    return asyncio.run(function(prompts=prompts, completions=completions, **columns))


@verifier
def same(completion, reference):
    from plaudit import Verdict

    if completion == "?":
        return Verdict.abstain("cannot say")
    return Verdict(float(completion == reference), extracted=completion)


ALL_HERE = threading.Barrier(4, timeout=20)


def together(completions, **columns):
    """Scores only when three others are scoring as well."""
    ALL_HERE.wait()
    return [1.0] * len(completions)


def failing(completions, **columns):
    raise RuntimeError("broken")


def test_scores_are_those_of_the_reward():
    found = ask(reward_func(same), ["a", "b", "?"], answer=["a", "a", "a"])
    assert found == [1.0, 0.0, None]


def test_a_failed_reward_abstains():
    assert ask(reward_func(failing), ["a", "b"]) == [None, None]


def test_what_is_logged_reaches_trl():
    columns, metrics = {}, {}
    ask(reward_func(same), ["a", "b"], answer=["a", "a"], log_extra=columns.__setitem__, log_metric=metrics.__setitem__)
    assert columns["same/extracted"] == ["a", "b"]


def test_several_wait_at_one_time():
    async def all_of(functions):
        calls = [function(prompts=["p"] * 2, completions=["a", "b"]) for function in functions]
        return await asyncio.gather(*calls)

    functions = [reward_func(together, name=f"reward{number}") for number in range(4)]
    assert asyncio.run(all_of(functions)) == [[1.0, 1.0]] * 4


@pytest.mark.parametrize(
    ("prompts", "size"),
    [(["a", "a", "b", "b"], 2), (["a"] * 4, 4), (["a", "b"], 1), (["a", "a", "b"], 1), (["a", "a", "b", "c"], 1)],
)
def test_groups_are_read_from_the_prompts(prompts, size):
    assert group_size(prompts) == size


def test_it_pickles_as_its_name():
    function = pickle.loads(pickle.dumps(reward_func("format", name="shape")))
    assert function.__name__ == "shape"


def test_an_unknown_name_is_an_error():
    from plaudit.errors import PluginError

    with pytest.raises(PluginError, match="no reward"):
        reward_func("no_such_reward_here")


@pytest.mark.peer
def test_it_runs_in_trls_trainer(tmp_path, model_folder):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    def length(completions, **columns):
        return [float(len(text)) for text in completions]

    ours = reward_func(same, name="ours")
    trainer = GRPOTrainer(
        model=str(model_folder),
        reward_funcs=[ours, length],
        args=GRPOConfig(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            num_generations=4,
            per_device_train_batch_size=4,
            max_completion_length=4,
            max_steps=1,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list([{"prompt": "a", "answer": "b"}] * 4),
    )
    trainer.train()
    logs = trainer.state.log_history[0]
    assert logs["rewards/ours/mean"] == 0.0
    assert logs["rewards/length/mean"] > 0


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
