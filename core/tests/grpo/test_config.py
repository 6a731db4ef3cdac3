"""GRPOConfig: defaults, help, parsing, and every rule in a table."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path

import plaudit.grpo
import pytest
from plaudit.grpo import GRPOConfig, LossOptions
from plaudit.grpo.checking.checks import REMOVED, ConfigError
from plaudit.grpo.fields import GenerationFields, LoggingFields, LossFields, ModelFields, VLLMFields
from transformers import HfArgumentParser

SECTIONS = (GenerationFields, LoggingFields, LossFields, ModelFields, VLLMFields)
OWN = {field.name: field for section in SECTIONS for field in dataclasses.fields(section)}


def make(tmp_path, **values):
    return GRPOConfig(output_dir=str(tmp_path), report_to=[], **values)


# One row a rule: the values, and what the message must say (the value, what was expected, what to do).
ERRORS = [
    ({"max_prompt_length": 128}, r"no field 'max_prompt_length' any more: filter or shorten"),
    ({"use_liger_loss": True}, r"no field 'use_liger_loss' any more"),
    ({"loss_typ": "grpo"}, r"no field 'loss_typ'; did you mean 'loss_type'"),
    ({"quux_zyzzy": 1}, r"no field 'quux_zyzzy'; see the fields"),
    ({"num_generations": 1}, r"num_generations is 1; .* at least 2"),
    ({"num_generations": None}, r"num_generations is None; .* at least 2"),
    ({"num_generations": 3}, r"\(8 = .*\) must be a multiple of num_generations \(3\); change one"),
    ({"generation_batch_size": 16, "steps_per_generation": 2}, r"\(16\) and steps_per_generation \(2\) .* set one"),
    ({"generation_batch_size": 12}, r"generation_batch_size \(12\) must be a multiple of .*\(8\); set 8"),
    ({"generation_batch_size": 0}, r"generation_batch_size \(0\) must be a multiple"),
    ({"eval_strategy": "steps", "per_device_eval_batch_size": 12}, r"12 x 1\) must be a multiple .*\(8\); set"),
    (
        {"eval_strategy": "steps", "per_device_eval_batch_size": 8, "num_generations_eval": 3},
        r"8 x 1\) must be a multiple .*\(3\)",
    ),
    ({"num_generations_eval": 0}, r"num_generations_eval is 0; .* at least 1"),
    ({"loss_type": "ppo"}, r"loss_type is 'ppo'; it must be one of grpo, .*vespo"),
    ({"importance_sampling_level": "turn"}, r"importance_sampling_level is 'turn'; .*token, sequence"),
    ({"multi_objective_aggregation": "mean"}, r"multi_objective_aggregation is 'mean'; .*sum_then_normalize"),
    ({"scale_rewards": "rows"}, r"scale_rewards is 'rows'; .*group, batch, none"),
    ({"vllm_mode": "remote"}, r"vllm_mode is 'remote'; .*colocate, server"),
    ({"vllm_importance_sampling_mode": "both"}, r"vllm_importance_sampling_mode is 'both'; .*sequence_mask"),
    ({"max_completion_length": 0}, r"max_completion_length is 0; .* at least 1"),
    ({"max_completion_length": None}, r"max_completion_length is None; .* at least 1"),
    ({"num_iterations": 0}, r"num_iterations is 0; .* at least 1"),
    ({"temperature": 0.0}, r"temperature is 0.0; it must be above 0"),
    ({"top_p": 0.0}, r"top_p is 0.0; .*above 0 and at most 1"),
    ({"top_k": -1}, r"top_k is -1; .*0 or more"),
    ({"min_p": 1.5}, r"min_p is 1.5; .*between 0 and 1"),
    ({"repetition_penalty": 0.0}, r"repetition_penalty is 0.0; .*above 0"),
    ({"beta": -0.1}, r"beta is -0.1; .*0 or more"),
    ({"epsilon": -0.1}, r"epsilon is -0.1"),
    ({"epsilon_high": -1.0}, r"epsilon_high is -1.0"),
    ({"delta": 0.0}, r"delta is 0.0; .*above 0, or None"),
    ({"sapo_temperature_pos": 0.0}, r"sapo_temperature_pos is 0.0"),
    ({"sapo_temperature_neg": -1.0}, r"sapo_temperature_neg is -1.0"),
    ({"top_entropy_quantile": 0.0}, r"top_entropy_quantile is 0.0"),
    ({"top_entropy_quantile": 1.2}, r"top_entropy_quantile is 1.2"),
    ({"entropy_coef_min": 0.5, "entropy_coef_max": 0.1}, r"entropy_coef_min \(0.5\) must not exceed .*\(0.1\)"),
    ({"entropy_coef_delta": -0.1}, r"entropy_coef_delta is -0.1"),
    ({"pad_to_multiple_of": "often"}, r"pad_to_multiple_of is 'often'; .*number, auto or none"),
    ({"pad_to_multiple_of": 0}, r"pad_to_multiple_of is 0; .*at least 1"),
    (
        {"vllm_importance_sampling_clip_min": 3.0, "vllm_importance_sampling_clip_max": 3.0},
        r"clip_min \(3.0\) must be less than .*clip_max \(3.0\)",
    ),
    (
        {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": None},
        r"'token_truncate' clips to bounds, but none is set",
    ),
    (
        {"vllm_importance_sampling_mode": "sequence_truncate", "vllm_importance_sampling_clip_max": None},
        r"'sequence_truncate' clips to bounds, but none is set",
    ),
    ({"use_vllm": True, "loss_type": "vespo"}, r"'sequence_mask', but vespo .* set token_truncate"),
    ({"use_vllm": True, "top_p": 0.9}, r"top_p=0.9 with .* set top_k=512"),
    ({"use_vllm": True, "min_p": 0.1, "top_p": 0.9}, r"top_p=0.9, min_p=0.1 with"),
    ({"use_vllm": True, "vllm_structured_outputs_regex": "a+"}, r"vllm_structured_outputs_regex='a\+' with"),
    ({"use_vllm": True, "repetition_penalty": 1.1}, r"repetition_penalty \(1.1\) .* set repetition_penalty=1.0"),
    ({"sync_ref_model": True}, r"sync_ref_model is on but beta is 0"),
    ({"log_completions_hub_repo": "me/runs"}, r"'me/runs' but log_completions is off"),
    ({"auto_find_batch_size": True}, r"auto_find_batch_size is on"),
]

# What TRL accepts too; the defaults of the rest stay.
ACCEPTED = [
    {},
    {"num_generations": 4, "per_device_train_batch_size": 4},
    {"generation_batch_size": 16},
    {"steps_per_generation": 4, "per_device_train_batch_size": 2},
    {"eval_strategy": "steps", "per_device_eval_batch_size": 6, "num_generations_eval": 3},
    {"per_device_eval_batch_size": 3},
    {"vllm_importance_sampling_mode": "token_mask", "vllm_importance_sampling_clip_max": None},
    {"vllm_importance_sampling_clip_min": 0.1},
    {"use_vllm": True, "loss_type": "vespo", "vllm_importance_sampling_mode": "token_mask"},
    {"use_vllm": True, "loss_type": "vespo", "vllm_importance_sampling_correction": False},
    {"use_vllm": True, "top_p": 0.9, "top_k": 512},
    {"use_vllm": True, "top_p": 0.9, "vllm_importance_sampling_correction": False},
    {"use_vllm": True, "repetition_penalty": 1.1, "vllm_importance_sampling_correction": False},
    {"top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1},
    {"sync_ref_model": True, "beta": 0.1},
    {"log_completions_hub_repo": "me/runs", "log_completions": True},
    {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    {"loss_type": "cispo", "epsilon_high": 5.0},
    {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    {"loss_type": "sapo", "importance_sampling_level": "sequence"},
    {"delta": 1.5},
    {"use_adaptive_entropy": True, "entropy_coef": 0.5},
]

WARNINGS = [
    ({"loss_type": "luspo"}, r"luspo is meant for importance_sampling_level='sequence'"),
    ({"loss_type": "vespo", "importance_sampling_level": "sequence"}, r"vespo builds its own sequence ratio"),
    *(
        (
            {"loss_type": loss, "importance_sampling_level": "sequence", "epsilon_high": 5.0},
            f"loss_type='{loss}' weighs",
        )
        for loss in ("bnpo", "dr_grpo", "dapo", "cispo")
    ),
    ({"loss_type": "cispo"}, r"0.2 is below 1, so nearly all are capped"),
    ({"delta": 1.1}, r"delta \(1.1\) is below 1 \+ epsilon_high \(1.2\)"),
    ({"use_adaptive_entropy": True, "entropy_coef": 2.0}, r"entropy_coef \(2.0\) lies outside"),
]


@pytest.mark.parametrize(("values", "message"), ERRORS)
def test_what_cannot_work_is_refused(tmp_path, values, message):
    with pytest.raises(ConfigError) as caught:
        make(tmp_path, **values)
    text = str(caught.value)
    assert re.search(message, text)
    assert len(text) < 300


@pytest.mark.parametrize("values", ACCEPTED)
def test_what_can_work_passes_without_a_warning(tmp_path, values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(tmp_path, **values)


@pytest.mark.parametrize(("values", "message"), WARNINGS)
def test_what_is_probably_meant_otherwise_warns(tmp_path, values, message):
    with pytest.warns(UserWarning, match=message):
        make(tmp_path, **values)


def test_departures_and_changed_defaults(tmp_path):
    config = make(tmp_path, use_cpu=True)
    assert (config.bf16, config.gradient_checkpointing) == (False, False)
    assert (config.logging_steps, config.learning_rate, config.remove_unused_columns) == (10, 1e-6, False)


def test_every_field_has_help_that_argparse_can_print():
    assert all(len(field.metadata.get("help", "")) > 15 for field in OWN.values())
    HfArgumentParser(GRPOConfig).format_help()


def test_command_line(tmp_path):
    words = (
        f"--output_dir {tmp_path} --report_to none --loss_type sapo --beta 0.1 --reward_weights 1 0.5 "
        "--scale_rewards false --no_shuffle_dataset --pad_to_multiple_of 8"
    )
    arguments = [*words.split(), "--generation_kwargs", '{"top_k": 5}']
    (config,) = HfArgumentParser(GRPOConfig).parse_args_into_dataclasses(arguments)
    assert (config.loss_type, config.beta, config.reward_weights) == ("sapo", 0.1, [1.0, 0.5])
    assert (config.scale_rewards, config.shuffle_dataset, config.pad_to_multiple_of) == ("none", False, 8)
    assert config.generation_kwargs == {"top_k": 5}


@pytest.mark.parametrize(("high", "expected"), [(None, 0.3), (0.5, 0.5)])
def test_loss_options_come_from_the_config(tmp_path, high, expected):
    options = LossOptions.from_config(make(tmp_path, epsilon=0.3, epsilon_high=high, loss_type="grpo", beta=0.2))
    assert (options.epsilon, options.epsilon_high) == (0.3, expected)
    assert (options.loss_type, options.beta, options.entropy_bonus) == ("grpo", 0.2, False)
    assert LossOptions.from_config(make(tmp_path, entropy_coef=0.1)).entropy_bonus
    assert LossOptions.from_config(make(tmp_path, use_adaptive_entropy=True)).entropy_bonus


def test_no_field_is_accepted_and_ignored():
    """Each field is read where the engine is built; aliases resolve to another field."""
    folder = Path(plaudit.grpo.__file__).parent
    about = {"checks.py", "rules.py"}
    paths = [path for path in folder.rglob("*.py") if path.name not in about and path.parent.name != "fields"]
    sources = [path.read_text() for path in paths]
    inherited = {"learning_rate", "logging_steps", "bf16"}
    aliases = {"use_transformers_paged", "vllm_importance_sampling_cap"}
    read = {name for name in OWN if any(re.search(rf"\b{name}\b", source) for source in sources)}
    assert set(OWN) - read - inherited - aliases == set()


def test_removed_names_are_no_fields():
    assert not set(REMOVED) & set(GRPOConfig.__dataclass_fields__)


@pytest.mark.peer
def test_fields_and_defaults_are_the_peers():
    trl = pytest.importorskip("trl")
    ours = {field.name: field for field in dataclasses.fields(GRPOConfig)}
    theirs = {field.name: field for field in dataclasses.fields(trl.GRPOConfig)}
    departures = {"gradient_checkpointing"}
    assert set(theirs) <= set(ours)
    assert len(set(OWN) & set(theirs) - {"logging_steps", "bf16"}) == 79
    differing = {name for name in theirs if ours[name].default != theirs[name].default}
    assert differing == departures
