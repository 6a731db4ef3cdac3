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


def tasks_of(config: str, *limits: str) -> object:
    tasks = "".join(
        f'[[task]]\nname = "t{n}"\ndata = {{path = "d.jsonl"}}\n{limit}\n' for n, limit in enumerate(limits)
    )
    table = f'output_dir = "o"\n[model]\npath = "m"\n[[reward]]\nname = "exact"\n{tasks}'
    return make_config(parse_run(tomllib.loads(f"{table}[config]\nuse_cpu = true\n{config}")))


def test_a_task_limits_its_own_completions():
    config = tasks_of("", "max_completion_length = 30", "")
    assert config.task_max_completion_length == {"t0": 30}
    assert config.max_completion_length == 512
    assert tasks_of("", "", "").task_max_completion_length is None


@pytest.mark.parametrize(
    ("config", "limit", "match"),
    [
        ("max_completion_length = 20", "max_completion_length = 30", "task 't0' is 30.*1 to max_completion_length.*20"),
        ("", "max_completion_length = 0", "task 't0' is 0"),
        ("", 'max_completion_length = "5"', "max_completion_length"),
        ("task_max_completion_length = {t0 = 5}", "", "task.N.max_completion_length"),
    ],
)
def test_a_limit_that_no_completion_can_have(config, limit, match):
    with pytest.raises(UsageError, match=match):
        tasks_of(config, limit, "")
