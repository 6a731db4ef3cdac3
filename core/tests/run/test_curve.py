"""The curve and the held-out evaluation from their numbers."""

from __future__ import annotations

import json
from types import SimpleNamespace

from plaudit.run.curve import draw_curve, read_metrics, series
from plaudit.run.heldout import Evaluation, evaluate_heldout, read_evaluations, save_evaluations
from plaudit.run.progress import describe_metrics
from plaudit.run.report import write_report


def test_metrics_are_read_up_to_a_line_that_was_cut_off(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "reward": null}\n{"step": 3, "rew', encoding="utf-8")
    records = read_metrics(path)
    assert [record["step"] for record in records] == [1, 2]
    assert series(records, "reward") == [(1, 0.5)]
    assert read_metrics(tmp_path / "none.jsonl") == []


def pixels(path):
    from matplotlib import image

    return image.imread(path)


def test_the_curve_shows_what_it_is_given(tmp_path):
    records = [{"step": i, "reward": i / 10, "reward_std": 0.1, "rewards/a/mean": i / 10} for i in range(10)]
    for name, given, heldout in (
        ("empty.png", [], {}),
        ("train.png", records, {}),
        ("heldout.png", records, {"a": [(0, 0.1), (9, 0.9)]}),
    ):
        draw_curve(given, ["a"], tmp_path / name, title="a run", heldout=heldout)
    pictures = [pixels(tmp_path / name) for name in ("empty.png", "train.png", "heldout.png")]
    assert {picture.shape for picture in pictures} == {pictures[0].shape}
    assert (pictures[0] != pictures[1]).any()
    third = pictures[0].shape[1] // 3
    changed = (pictures[1] != pictures[2]).any(axis=(0, 2))
    assert changed[third : 2 * third].any()
    assert not changed[2 * third :].any()


def trainer_of(records):
    asked = []

    def generate(rows, *, temperature):
        asked.append((len(rows), temperature))
        return records

    return SimpleNamespace(generate_completions=generate, state=SimpleNamespace(global_step=7)), asked


RECORDS = [
    {"prompt": "p1", "completion": "c1", "a": 1.0, "b": None, "reward": 1.0},
    {"prompt": "p2", "completion": "c2", "a": 0.0, "b": 0.5, "reward": 0.5},
    {"prompt": "p3", "completion": "c3", "a": None, "b": None, "reward": None},
]


def test_abstentions_leave_the_mean(tmp_path):
    trainer, asked = trainer_of(RECORDS)
    found = evaluate_heldout(trainer, [{}] * 3, ["a", "b", "c"][:2], temperature=0.0)
    assert asked == [(3, 0.0)]
    assert (found.step, found.rows, found.reward) == (7, 3, 0.75)
    assert (found.means, found.judged) == ({"a": 0.5, "b": 0.5}, {"a": 2, "b": 1})
    save_evaluations({"before": found}, tmp_path / "heldout.json")
    assert read_evaluations(tmp_path / "heldout.json") == {"before": found}
    assert read_evaluations(tmp_path / "none.json") == {}


def test_a_reward_that_judged_nothing_has_no_mean_and_no_point():
    trainer, _ = trainer_of(RECORDS[2:])
    found = evaluate_heldout(trainer, [{}], ["a"], temperature=0.0)
    assert (found.means["a"], found.point("a"), found.reward) == (None, None, None)


def test_the_report_quotes_completions_as_they_are(tmp_path):
    from plaudit.run.folder import RunFolder

    sample = {"prompt": "p", "completion": "```python\n# Not a heading\n```", "a": 0.25}
    before = Evaluation(step=0, rows=1, reward=0.25, means={"a": 0.25}, judged={"a": 1}, samples=[sample])
    after = Evaluation(step=9, rows=1, reward=None, means={"a": None}, judged={"a": 0}, samples=[])
    folder = RunFolder(tmp_path)
    write_report(
        folder, title="x", plan=[("model", "m")], evaluations={"before": before, "after": after}, decoding="greedy"
    )
    text = folder.report.read_text()
    assert "| a | 0.250 | – |" in text
    assert "````text\np\n--> ```python\n# Not a heading\n```\n````" in text
    assert "![learning curve]" not in text


def test_progress_names_reward_scores_and_length():
    logs = json.loads(
        '{"reward": 0.5, "rewards/a/mean": 0.25, "rewards/b/mean": null, "completions/mean_length": 30.6}'
    )
    assert describe_metrics(logs, ["a", "b"]) == "reward 0.500, a 0.250, length 31"
    assert describe_metrics(logs, ["a"]) == "reward 0.500, length 31"
    assert describe_metrics({"loss": 1.0}, ["a"]) == ""
    assert describe_metrics({"eval_reward": 1}, ["a"], prefix="eval_") == "reward 1.000"
