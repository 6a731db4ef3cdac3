"""What a sweep says before its first trial: values that the run file refuses, alone or beside the others."""

from __future__ import annotations

import pytest
from plaudit import UsageError
from plaudit.errors import PlauditError
from plaudit.run.sweep.checking import check_run_file
from plaudit.run.sweep.schema import Parameter, SweepFile

RUN = """
output_dir = "run"
[model]
path = "quickstart"
[data]
name = "quickstart:addition"
options = {size = 32}
[[reward]]
name = "addition"
[config]
per_device_train_batch_size = 16
max_completion_length = 40
use_cpu = true
"""
GENERATIONS, BATCH = "config.num_generations", "config.per_device_train_batch_size"


@pytest.fixture
def check(tmp_path):
    pytest.importorskip("plaudit_quickstart")

    def checked(run=RUN, **params):
        (tmp_path / "run.toml").write_text(run)
        choices = {name.replace("__", "."): Parameter(choices=tuple(values)) for name, values in params.items()}
        check_run_file(SweepFile(str(tmp_path / "run.toml"), str(tmp_path / "out"), choices))

    return checked


def test_values_that_go_with_some_of_the_others_are_taken(check):
    check(**{GENERATIONS: [4, 8, 7], BATCH: [16, 28]})


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({GENERATIONS: [4, 7]}, r'params."config.num_generations" = 7: .*\b7\b'),
        ({GENERATIONS: [4, 7], BATCH: [16, 32]}, r'params."config.num_generations" = 7: '),
        ({"config.learning_rate": [1e-5, "fast"]}, "params.\"config.learning_rate\" = 'fast': .*expected a number"),
        ({"config.lerning_rate": [1e-5]}, "did you mean 'learning_rate'"),
        ({"reward.7.weight": [1.0]}, "'7' is not a place in that list"),
    ],
)
def test_a_value_that_no_run_takes_is_named(check, params, says):
    with pytest.raises(UsageError, match=says):
        check(**params)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('name = "addition"', 'name = "adition"'), "did you mean 'addition'"),
        (('path = "quickstart"', 'path = "./nowhere"'), "nowhere"),
        (("size = 32", "size = 1"), "cannot fill one generation batch"),
    ],
)
def test_a_run_that_could_not_begin_ends_the_sweep_at_once(check, change, says):
    with pytest.raises(PlauditError, match=says):
        check(RUN.replace(*change), **{GENERATIONS: [4]})


def test_a_run_of_stages_is_refused(check):
    stages = '[[stage]]\nname = "a"\nconfig = {max_steps = 1}\n'
    with pytest.raises(UsageError, match=r"has \[\[stage\]\]"):
        check(RUN + stages, **{GENERATIONS: [4]})
