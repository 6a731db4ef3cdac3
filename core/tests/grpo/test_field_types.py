"""Every field of TRL's configuration and of ours refuses what its declaration does not allow, by name."""

from __future__ import annotations

import dataclasses
import math
from typing import get_type_hints

import pytest
from legal_values import LEGAL, OWN, fields_with
from plaudit.grpo import GRPOConfig
from plaudit.grpo.checking.checks import ConfigError
from transformers import HfArgumentParser

HINTS = {name: str(hint) for name, hint in get_type_hints(GRPOConfig).items()}
OTHER_SPELLINGS = {"scale_rewards": (True, False), "top_k": (None,)}
COUNTS = ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps")


def make(tmp_path, **values):
    return GRPOConfig(output_dir=str(tmp_path), report_to=[], **{"bf16": False, **values})


def wrong_for(name):
    """Values of other types than the field's, as its declaration reads."""
    hint = HINTS[name].replace("<class '", "").replace("'>", "")
    wrong = [object(), (1,), {1, 2}]
    wrong += [] if "str" in hint else ["", "many", "1e-5", "3"]
    wrong += [] if "float" in hint else [1.5]
    wrong += [] if "float" in hint or "int" in hint else [3]
    wrong += [] if "bool" in hint else [True, False]
    wrong += [] if "dict" in hint else [{}, {"a": 1}]
    wrong += [] if "list" in hint else [[], [1]]
    wrong += ["[1]", "words", '{"a"', ["a"]] if "dict" in hint else []
    wrong += ["a", [None], ["a"]] if "list[float]" in hint else []
    wrong += [[1], [None]] if "list[str]" in hint else []
    wrong += [] if "None" in hint else [None]
    wrong += [math.nan, -math.inf] if "float" in hint else []
    spelt = OTHER_SPELLINGS.get(name, ())
    return [value for value in wrong if not any(value is other for other in spelt)]


@pytest.mark.parametrize("name", OWN)
def test_a_value_of_another_type_is_refused_by_name(name, tmp_path):
    beside = fields_with(name)
    for wrong in wrong_for(name):
        with pytest.raises(ConfigError, match=rf"^{name} is .*; (it|as text it) must be "):
            make(tmp_path, **{**beside, name: wrong})


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -8, 1.5, "8", None, True])
def test_what_batches_are_made_of_is_a_count(name, value, tmp_path):
    with pytest.raises(ConfigError, match=f"^{name} is "):
        make(tmp_path, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", -1e-6),
        ("router_aux_loss_coef", -0.1),
        ("vllm_server_port", 0),
        ("vllm_group_port", 70000),
        ("vllm_tensor_parallel_size", 0),
        ("vllm_max_model_length", 0),
        ("vllm_importance_sampling_clip_max", 0.0),
        ("vespo_k_neg", -1.0),
        ("temperature", math.inf),
    ],
)
def test_numbers_out_of_range(name, value, tmp_path):
    with pytest.raises(ConfigError, match=rf"^{name} is {value}; it must be "):
        make(tmp_path, **{name: value})


@pytest.mark.parametrize("name", ["epsilon", "epsilon_high", "delta", "vllm_server_timeout"])
def test_limits_may_be_lifted(name, tmp_path):
    assert getattr(make(tmp_path, **{name: math.inf}), name) == math.inf


def test_a_number_in_quotes_says_so(tmp_path):
    """PyYAML reads 1e-5 as text."""
    with pytest.raises(
        ConfigError, match=r"learning_rate is '1e-5'; .* a number; write the number 1e-5 without quotes"
    ):
        make(tmp_path, learning_rate="1e-5")


@pytest.mark.parametrize("name", [name for name, value in LEGAL.items() if isinstance(value, dict)])
def test_dicts_as_json_on_the_command_line(name, tmp_path):
    base = ["--output_dir", str(tmp_path), "--report_to", "none", "--bf16", "false"]
    beside = {"transformers_continuous_batching_config": ["--use_transformers_continuous_batching"]}.get(name, [])
    (config,) = HfArgumentParser(GRPOConfig).parse_args_into_dataclasses([*base, *beside, f"--{name}", '{"a": 1}'])
    assert getattr(config, name) == {"a": 1}
    with pytest.raises(ConfigError, match=f"^{name} is "):
        HfArgumentParser(GRPOConfig).parse_args_into_dataclasses([*base, *beside, f"--{name}", "a=1"])


def test_lists_on_the_command_line(tmp_path):
    base = ["--output_dir", str(tmp_path), "--report_to", "none", "--bf16", "false"]
    words = ["--reward_weights", "1", "0.5"]
    (config,) = HfArgumentParser(GRPOConfig).parse_args_into_dataclasses([*base, *words])
    assert config.reward_weights == [1.0, 0.5]


@pytest.mark.peer
def test_no_field_of_trl_is_left_out():
    trl = pytest.importorskip("trl")
    from transformers import TrainingArguments

    theirs = {field.name for field in dataclasses.fields(trl.GRPOConfig)}
    assert theirs - {field.name for field in dataclasses.fields(TrainingArguments)} <= OWN.keys()
