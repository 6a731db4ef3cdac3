"""AITraining's flags and parameters: what is read, checked and refused before a model is loaded."""

from __future__ import annotations

import argparse

import pytest
from plaudit import UsageError
from plaudit.bridges.autotrain import LLMTrainingParams
from plaudit.bridges.autotrain.configuring import make_config, training_processes
from plaudit.bridges.autotrain.flags import add_flags, given_flags
from plaudit.bridges.autotrain.project import command_line

NEEDED = {"rl_env_module": "some.module", "rl_env_class": "Env"}


def flags_of(line: str) -> dict:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return given_flags(parser.parse_args(line.split()))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--rl-env-module m --rl-env-class C", {"rl_env_module": "m", "rl_env_class": "C"}),
        ("--rl_env_module m --rl_kl_coef 0.05", {"rl_env_module": "m", "rl_kl_coef": 0.05}),
        ("--use-vllm --vllm-mode server --vllm_server_gpus 2",
         {"use_vllm": True, "vllm_mode": "server", "vllm_server_gpus": 2}),
        ("--peft --lora-r 8 --merge-adapter false", {"peft": True, "lora_r": 8, "merge_adapter": False}),
        ("--rl-mask-truncated-completions True --lr 1e-5", {"rl_mask_truncated_completions": True, "lr": 1e-5}),
        ("--model x --project-name p --epochs 2 --batch-size 8 --gradient-accumulation 1",
         {"model": "x", "project_name": "p", "epochs": 2, "batch_size": 8, "gradient_accumulation": 1}),
    ],
)  # fmt: skip
def test_flags_are_spelled_either_way(line, expected):
    assert flags_of(line) == expected


def test_defaults_are_those_of_the_original():
    params = LLMTrainingParams(**NEEDED)
    expected = {
        "rl_num_generations": 4, "rl_max_new_tokens": 128, "rl_temperature": 1.0, "rl_top_p": 1.0, "rl_top_k": 50,
        "rl_kl_coef": 0.1, "rl_clip_range": 0.2, "rl_loss_type": "grpo", "rl_mask_truncated_completions": False,
        "use_vllm": False, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3, "vllm_server_url": None,
        "vllm_tensor_parallel_size": 1, "vllm_server_gpus": 1, "peft": False, "lora_r": 16, "lora_alpha": 32,
        "epochs": 1, "batch_size": 2, "lr": 3e-5, "gradient_accumulation": 4,
    }  # fmt: skip
    assert {name: getattr(params, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rl_env_module": None}, "requires --rl-env-module"),
        ({"rl_env_class": ""}, "requires --rl-env-class"),
        ({"rl_loss_type": "bogus"}, "--rl-loss-type is 'bogus'; expected one of grpo, dapo"),
        ({"vllm_mode": "zzz"}, "--vllm-mode is 'zzz'"),
        ({"rl_num_generations": 0}, "--rl-num-generations is 0; expected at least 2"),
        ({"rl_num_generations": 1}, "at least 2"),
        ({"rl_env_config": "{not json"}, "--rl-env-config is not JSON"),
        ({"rl_env_config": "[1]"}, "expected a JSON object"),
        ({"rl_top_p": 0.0}, "--rl-top-p is 0.0"),
        ({"lr": -1.0}, "--lr is -1.0"),
        ({"trainer": "ppo"}, "--trainer is 'ppo'"),
        ({"quantization": "int2"}, "--quantization is 'int2'"),
        ({"rl_num_generations": "4"}, "--rl-num-generations is '4'; expected int"),
        ({"rl_num_generations": 2.5}, "--rl-num-generations is 2.5; expected int"),
        ({"epochs": True}, "--epochs is True; expected int"),
        ({"lr": "abc"}, "--lr is 'abc'; expected float"),
        ({"lr": float("nan")}, "--lr is nan; expected a number"),
        ({"lr": float("inf")}, "--lr is inf; expected a number"),
        ({"rl_temperature": 0.0}, "--rl-temperature is 0; log-probs"),
        ({"peft": "yes"}, "--peft is 'yes'; expected bool"),
        ({"rl_top_k": None}, "--rl-top-k is None; expected int"),
        ({"vllm_mode": None}, "--vllm-mode is None"),
        ({"max_samples": 2.0}, "--max-samples is 2.0; expected int or nothing"),
        ({"rl_env_config": 3}, "--rl-env-config is 3"),
        ({"model": ""}, "--model is empty"),
        ({"warmup_ratio": 5.0}, "--warmup-ratio is 5.0; expected a share below 1"),
        ({"vllm_server_url": "host:8000"}, "--vllm-server-url is 'host:8000'"),
        ({"push_to_hub": True}, "--repo-id"),
    ],
)
def test_a_bogus_value_is_an_error_at_once(given, says):
    with pytest.raises(UsageError, match=says.replace("[", r"\[")):
        LLMTrainingParams(**{**NEEDED, **given})


def test_parameters_reach_the_configuration(tmp_path):
    params = LLMTrainingParams(
        **NEEDED, project_name=str(tmp_path), rl_kl_coef=0.05, rl_clip_range=0.3, rl_loss_type="dr_grpo", lr=1e-5,
        disable_gradient_checkpointing=True,
    )  # fmt: skip
    config = make_config(params)
    found = (
        config.beta,
        config.epsilon,
        config.loss_type,
        config.learning_rate,
        config.top_k,
        config.max_completion_length,
    )
    assert found == (0.05, 0.3, "dr_grpo", 1e-5, 50, 128)
    assert (config.num_generations, config.gradient_checkpointing, config.bf16) == (4, False, False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rl_num_generations": 3}, "num_generations is --rl-num-generations"),
        ({"batch_size": 1, "gradient_accumulation": 1}, "per_device_train_batch_size is --batch-size"),
        ({"optimizer": "zzz"}, "zzz is not a valid OptimizerNames"),
        ({"scheduler": "zzz"}, "zzz is not a valid SchedulerType"),
    ],
)
def test_values_that_clash_are_said_by_their_flags(tmp_path, given, says):
    with pytest.raises(UsageError, match=says):
        make_config(LLMTrainingParams(**NEEDED, project_name=str(tmp_path), **given))


def test_a_vllm_server_stands_on_this_machine_unless_told_otherwise(tmp_path):
    flags = flags_of("--use-vllm --vllm-mode server --vllm-server-gpus 2 --vllm-tensor-parallel-size 2")
    config = make_config(LLMTrainingParams(**NEEDED, project_name=str(tmp_path), **flags))
    assert (config.use_vllm, config.vllm_mode, config.vllm_server_base_url) == (True, "server", None)
    assert config.vllm_server_port == 8000


@pytest.mark.parametrize(
    ("given", "gpus", "count"),
    [
        ({"use_vllm": True, "vllm_mode": "server", "vllm_server_url": "http://h:1", "vllm_server_gpus": 2}, 8, 6),
        ({"use_vllm": True, "vllm_mode": "colocate", "vllm_server_gpus": 2}, 8, 8),
        ({"vllm_server_gpus": 2}, 4, 4),
        ({}, 0, 1),
    ],
)
def test_server_gpus_are_taken_off_the_training_processes(given, gpus, count):
    assert training_processes(LLMTrainingParams(**NEEDED, **given), gpus) == count


def test_no_gpu_left_is_an_error():
    params = LLMTrainingParams(
        **NEEDED, use_vllm=True, vllm_mode="server", vllm_server_url="http://h:1", vllm_server_gpus=4
    )
    with pytest.raises(UsageError, match="leaves none of 4"):
        training_processes(params, 4)


def test_other_processes_are_told_the_same_by_flags_but_the_token():
    given = {**NEEDED, "rl_env_config": {"a": 1}, "peft": True, "lr": 1e-5, "push_to_hub": True, "repo_id": "o/n"}
    words = command_line(LLMTrainingParams(**given, token="hf_secret"))
    parser = argparse.ArgumentParser()
    add_flags(parser)
    assert given_flags(parser.parse_args(words)) == {**given, "rl_env_config": '{"a": 1}'}
