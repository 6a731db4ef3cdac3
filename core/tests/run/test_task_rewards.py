"""Every task of a run has a reward that can score it, or the run does not begin."""

from __future__ import annotations

import tomllib

import pytest
from plaudit import UsageError, verifier
from plaudit.run.rewards import check_columns, load_rewards
from plaudit.run.runfile import parse_run
from plaudit.scoring.spec import RewardSpec, reward_specs


@verifier
def same(completion, reference):
    return completion == reference


def length(completions, **columns):
    return [float(len(text)) for text in completions]


def specs_of(*pairs):
    return [RewardSpec(reward_specs([function])[0].reward, function.__name__, when=when) for function, when in pairs]


ROWS = [
    {"prompt": "a", "task": "sums", "answer": "1"},
    {"prompt": "b", "task": "poems", "answer": None},
]


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        (specs_of((same, {"task": "sums"}), (length, {"task": "poems"})), None),
        (specs_of((same, {"task": "sums"}), (length, None)), None),
        (specs_of((same, {"task": "sums"})), "no reward runs on task 'poems'"),
        (specs_of((same, None)), "no reward can score task 'poems': same would find no reference"),
    ],
)
def test_a_task_without_a_score_is_refused(specs, says):
    if says is None:
        check_columns(specs, ROWS)
    else:
        with pytest.raises(UsageError, match=says):
            check_columns(specs, ROWS)


TASKS = """
output_dir = "out"
[model]
path = "m"
[[task]]
name = "sums"
data = {path = "x"}
reward = [{name = "think_answer_format"}, {name = "xml_count"}, {name = "think_format", after = AFTER}]
[[task]]
name = "poems"
data = {path = "x"}
reward = [{name = "think_answer_format"}]
"""


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ('"think_answer_format"', "sums/think_answer_format"),
        ('"sums/think_answer_format"', "sums/think_answer_format"),
        ("{think_answer_format = 0.5}", {"sums/think_answer_format": 0.5}),
        ('"poems/think_answer_format"', "poems/think_answer_format"),
        ('"sums/xml_count"', "xml_count"),
        ('"nothing"', "nothing"),
    ],
)
def test_after_names_a_reward_of_the_same_task(after, found):
    specs = {spec.name: spec for spec in load_rewards(parse_run(tomllib.loads(TASKS.replace("AFTER", after))))}
    assert specs.keys() == {"sums/think_answer_format", "xml_count", "think_format", "poems/think_answer_format"}
    assert specs["think_format"].after == found
