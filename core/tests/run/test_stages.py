"""Stages of a run file: which run each is, and what is refused."""

from __future__ import annotations

import json

import pytest
from plaudit import UsageError
from plaudit.run.folder import RunFolder
from plaudit.run.launch import Launch
from plaudit.run.mixing import mix_tasks, tempered_ratios
from plaudit.run.runfile import parse_run, resolved_table
from plaudit.run.stages import _started, joined_metrics, stage_runs


def table(**more):
    return {
        "output_dir": "runs/x",
        "model": {"path": "m"},
        "data": {"path": "rows.jsonl"},
        "reward": [{"name": "format"}, {"name": "math", "weight": 2.0}],
        "config": {"max_steps": 10, "learning_rate": 1e-5},
        "stage": [
            {"name": "form", "rewards": ["format"], "config": {"max_steps": 3}},
            {"name": "sense", "reward": [{"name": "math"}], "data": {"path": "hard.jsonl"}},
            {"name": "both"},
        ],
        **more,
    }


def test_each_stage_is_a_run_from_the_model_before():
    form, sense, both = stage_runs(parse_run(table()))
    assert [run.output_dir for run in (form, sense, both)] == ["runs/x/1-form", "runs/x/2-sense", "runs/x/3-both"]
    assert [run.model.path for run in (form, sense, both)] == ["m", "runs/x/1-form/model", "runs/x/2-sense/model"]
    assert [[reward.name for reward in run.rewards] for run in (form, sense, both)] == [
        ["format"], ["math"], ["format", "math"],
    ]  # fmt: skip
    assert form.config == {"max_steps": 3, "learning_rate": 1e-5}
    assert (sense.data.path, both.data.path) == ("hard.jsonl", "rows.jsonl")
    assert all(run.stages == () for run in (form, sense, both))


def test_a_stage_after_an_adapter_begins_with_the_merged_model():
    runs = stage_runs(parse_run(table(model={"path": "m", "peft": {"r": 4}})))
    assert runs[1].model.path == "runs/x/1-form/merged"


def test_the_resolved_file_gives_the_same_stages():
    run = parse_run(table())
    assert parse_run(resolved_table(run)) == run


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        ([{"name": "a"}, {"name": "a"}], "two stages have this name"),
        ([{"name": "a", "rewards": ["formt"]}], "did you mean 'format'"),
        ([{"name": "a/b"}], "a folder can have"),
        ([{"name": "a", "config": {"output_dir": "x"}}], "config.output_dir"),
        ([{"name": "a", "steps": 3}], "unknown key 'steps'"),
    ],
)
def test_a_wrong_stage_is_named(stages, says):
    with pytest.raises(UsageError, match=says):
        parse_run(table(stage=stages))


def test_metrics_count_on_from_stage_to_stage(tmp_path):
    for name, steps in (("a", [1, 2]), ("b", [1, 3])):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "metrics.jsonl").write_text(
            "".join(json.dumps({"step": step, "reward": 0.5}) + "\n" for step in steps)
        )
    lines = list(joined_metrics(["a", "b"], [RunFolder(tmp_path / name) for name in ("a", "b")]))
    assert [(line["stage"], line["step"]) for line in lines] == [("a", 1), ("a", 2), ("b", 3), ("b", 5)]


@pytest.mark.parametrize(("temperature", "shares"), [(1.0, [100, 4]), (2.0, [10, 2])])
def test_a_temperature_evens_tasks_out(temperature, shares):
    found = tempered_ratios({"a": [{}] * 100, "b": [{}] * 4}, temperature)
    assert list(found.values()) == pytest.approx(shares)


@pytest.mark.parametrize(
    ("asked", "left", "expected"),
    [
        (None, [], (None, False)),
        ("latest", [], (None, True)),
        ("latest", ["metrics.jsonl"], (None, True)),
        ("latest", ["metrics.jsonl", "checkpoint-4/half"], (None, True)),
        ("latest", ["checkpoint-4/whole", "checkpoint-8/half"], ("latest", False)),
        ("{folder}/checkpoint-4", ["checkpoint-4/whole", "checkpoint-8/whole"], ("{folder}/checkpoint-4", False)),
        ("{folder}/../1-form/checkpoint-4", ["checkpoint-4/whole"], ("latest", False)),
    ],
)
def test_a_stage_that_was_cut_off_goes_on_where_it_can(tmp_path, monkeypatch, asked, left, expected):
    folder = tmp_path / "2-sense"
    for name in left:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    whole = [path.parent for path in folder.glob("*/whole")]
    monkeypatch.setattr(
        "plaudit.grpo.saving.checkpoint_folders.newest_whole", lambda root: max(whole, default=None)
    )  # fmt: skip
    resume = None if asked is None else asked.format(folder=folder)
    how = _started(RunFolder(folder), Launch(resume=resume))
    wanted, overwrite = expected
    assert (how.resume, how.overwrite) == (wanted and wanted.format(folder=folder), overwrite)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), 0.001])
def test_a_temperature_that_cannot_be_is_refused(temperature):
    with pytest.raises(UsageError, match=f"task_temperature = {temperature}"):
        tempered_ratios({"a": [{}] * 100, "b": [{}] * 4}, temperature)


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf")])
def test_a_ratio_that_is_no_share_is_refused(ratio):
    with pytest.raises(UsageError, match=f"task 'b': ratio = {ratio}; expected a number above 0"):
        mix_tasks({"a": [{"n": 0}], "b": [{"n": 1}]}, {"a": 1.0, "b": ratio})


def test_a_share_too_small_for_its_rows_is_refused():
    rows = {"a": [{"n": place} for place in range(100)], "b": [{"n": 0}]}
    assert len(mix_tasks(rows, {"a": 1, "b": 99})) == 10_000
    with pytest.raises(UsageError, match=r"task 'a' has 100 rows for a share of 1e-06"):
        mix_tasks(rows, {"a": 1e-6, "b": 1})
