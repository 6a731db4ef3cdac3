"""`[config]` as a GRPOConfig."""

from __future__ import annotations

import tomllib

import pytest
from plaudit import UsageError
from plaudit.run.configuring import make_config
from plaudit.run.runfile import parse_run


def config_of(lines: str, folder: object) -> object:
    table = f'output_dir = "{folder}"\n[model]\npath = "m"\n[data]\npath = "d.jsonl"\n[[reward]]\nname = "exact"\n'
    return make_config(parse_run(tomllib.loads(f"{table}[config]\nuse_cpu = true\n{lines}")))


@pytest.mark.parametrize(
    ("written", "meant"), [("true", "group"), ("false", "none"), ('"batch"', "batch"), ('"false"', "none")]
)
def test_scale_rewards_is_a_name_or_a_switch(tmp_path, written, meant):
    assert config_of(f"scale_rewards = {written}", tmp_path).scale_rewards == meant


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("scale_rewards = 3", "scale_rewards"),
        ("learning_rat = 1e-5", "did you mean 'learning_rate'"),
        ("max_prompt_length = 5", "max_prompt_length"),
        ('num_generations = "8"', "num_generations"),
    ],
)
def test_what_is_no_field_or_no_value(tmp_path, line, match):
    with pytest.raises(UsageError, match=match):
        config_of(line, tmp_path)
