"""Every field: what TRL accepts is accepted, what it refuses is refused, and HfArgumentParser fills it."""

from __future__ import annotations

import json
import warnings

import pytest
from legal_values import LEGAL, OWN, fields_with
from plaudit.errors import UsageError
from plaudit.grpo import GRPOConfig
from plaudit.grpo.checking.checks import REMOVED, ConfigError
from transformers import HfArgumentParser

OLD_NAMES = ("use_transformers_paged", "vllm_importance_sampling_cap")

# What TRL's own configuration refuses, which is little.
TRL_REFUSES = [
    {"num_generations": 1},
    {"num_generations": 3},
    {"generation_batch_size": 12},
    {"generation_batch_size": 16, "steps_per_generation": 2},
    {"eval_strategy": "steps", "per_device_eval_batch_size": 12},
    {"vllm_importance_sampling_clip_min": 3.0},
    {"no_such_field": 1},
    {"max_prompt_length": 128},
]


def make(tmp_path, config_class=GRPOConfig, **values):
    return config_class(output_dir=str(tmp_path), report_to=[], **{"bf16": False, **values})


def test_the_table_is_complete_and_leaves_every_default():
    assert LEGAL.keys() == OWN.keys()
    assert [name for name, value in LEGAL.items() if value == OWN[name].default] == []


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_value_is_accepted_and_kept(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)
        config = make(tmp_path, **fields_with(name))
    assert getattr(config, name) == LEGAL[name]


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LEGAL)
def test_trl_accepts_it_too(name, tmp_path):
    trl = pytest.importorskip("trl")
    if name not in trl.GRPOConfig.__dataclass_fields__:
        pytest.skip("a field of Plaudit's own")
    assert getattr(make(tmp_path, trl.GRPOConfig, **fields_with(name)), name) == LEGAL[name]


@pytest.mark.peer
@pytest.mark.parametrize("values", TRL_REFUSES, ids=lambda values: "-".join(values))
def test_what_trl_refuses_is_refused(values, tmp_path):
    trl = pytest.importorskip("trl")
    with pytest.raises((ValueError, TypeError)):
        make(tmp_path, trl.GRPOConfig, **values)
    with pytest.raises(ConfigError):
        make(tmp_path, **values)


@pytest.mark.parametrize("name", REMOVED)
def test_a_name_that_is_gone_says_what_to_do(name, tmp_path):
    with pytest.raises(UsageError, match=rf"no field '{name}' any more: \w+") as caught:
        make(tmp_path, **{name: 1})
    assert REMOVED[name] in str(caught.value)


def words_of(name, value):
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value)]
    return [f"--{name}", *map(str, value if isinstance(value, list) else [value])]


def parsed(tmp_path, words):
    required = ["--output_dir", str(tmp_path), "--report_to", "none", "--bf16", "false"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        (config,) = HfArgumentParser(GRPOConfig).parse_args_into_dataclasses([*required, *words])
    return config


@pytest.mark.parametrize("name", LEGAL)
def test_the_command_line_fills_it(name, tmp_path):
    config = parsed(tmp_path, [word for pair in fields_with(name).items() for word in words_of(*pair)])
    assert getattr(config, name) == LEGAL[name]


@pytest.mark.parametrize("name", [name for name, value in LEGAL.items() if isinstance(value, bool) and name != "bf16"])
def test_a_switch_needs_no_value(name, tmp_path):
    beside = {other: value for other, value in fields_with(name).items() if other != name}
    words = [word for pair in beside.items() for word in words_of(*pair)]
    config = parsed(tmp_path, [*words, f"--{name}" if LEGAL[name] else f"--no_{name}"])
    assert getattr(config, name) is LEGAL[name]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_a_file_fills_all_that_go_together(kind, tmp_path):
    import yaml

    apart = ("generation_batch_size", "max_staleness", "use_vllm", "row_sampling", "curriculum_column")
    values = {name: value for name, value in LEGAL.items() if name not in (*apart, "reward_lookahead", *OLD_NAMES)}
    values |= {"vllm_importance_sampling_geometric_mean": False, "loss_type": "luspo"}
    path = tmp_path / f"run.{kind}"
    text = {"output_dir": str(tmp_path), "report_to": [], **values}
    path.write_text(json.dumps(text) if kind == "json" else yaml.safe_dump(text))
    parser = HfArgumentParser(GRPOConfig)
    (config,) = parser.parse_json_file(str(path)) if kind == "json" else parser.parse_yaml_file(str(path))
    assert {name: getattr(config, name) for name in values} == values
