"""Rows that are drawn by difficulty and by what was learnt: which come, how often, and the same after a resume."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from plaudit import UsageError
from plaudit.grpo.rows.chosen_rows import ChosenRows, Curriculum

from runs import ROWS, make_trainer, metrics_of


def rows_of(count=20, *, prompts=4, sampling="shuffle", uniform=0.0, tasks=None, curriculum=None):
    data = [{"prompt": str(number), "number": number} for number in range(count)]
    tasks = tasks or [None] * count
    return ChosenRows(data, prompts, 7, sampling, uniform, tasks, lambda number: number, curriculum)


def scored(rewards):
    return SimpleNamespace(advantages=SimpleNamespace(rewards=torch.tensor(rewards).flatten()))


def drawn(rows, number):
    return [row["number"] for row in rows.records(number, range(rows.prompts_per_batch))]


def test_easy_rows_come_first_and_all_in_the_end():
    curriculum = Curriculum(torch.arange(20).flip(0), start=0.25, steps=10)
    rows = rows_of(curriculum=curriculum)
    early = {number for batch in range(1) for number in drawn(rows, batch)}
    assert early <= {15, 16, 17, 18, 19}
    assert {number for batch in range(10, 60) for number in drawn(rows, batch)} == set(range(20))


@pytest.mark.parametrize("sampling", ["shuffle", "spread"])
def test_where_the_easiest_rows_are_too_few_for_a_batch_the_next_ones_fill_it(sampling):
    """Rows 17 to 19 are the easiest; a batch takes four."""
    curriculum = Curriculum(torch.arange(20).flip(0), start=0.15, steps=10)
    rows = rows_of(curriculum=curriculum, sampling=sampling)
    assert set(drawn(rows, 0)) == {16, 17, 18, 19}
    rows.observe(scored([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]]))
    rows.step_of = lambda number: 0
    assert set(drawn(rows, 1)) == {16, 17, 18, 19}


@pytest.mark.parametrize(("step", "count"), [(0, 5), (5, 13), (10, 20), (50, 20)])
def test_the_share_of_a_curriculum_grows_evenly(step, count):
    curriculum = Curriculum(torch.arange(20.0), start=0.25, steps=10)
    assert int(curriculum.admitted(step).sum()) == count


def test_no_row_twice_in_a_batch():
    rows = rows_of(count=5, prompts=4)
    assert all(len(set(drawn(rows, number))) == 4 for number in range(50))


def test_rows_that_differ_come_more_often_than_those_that_do_not():
    rows = rows_of(sampling="spread", uniform=0.1)
    counts = Counter()
    for number in range(300):
        batch = drawn(rows, number)
        counts.update(batch)
        rows.observe(scored([[0.0, 1.0] if index < 5 else [1.0, 1.0] for index in batch]))
    teaching = sum(counts[index] for index in range(5))
    assert teaching / counts.total() > 0.6
    assert all(counts[index] > 0 for index in range(20))


def test_a_task_whose_reward_moves_comes_more_often():
    tasks = ["moving"] * 10 + ["still"] * 10
    rows = rows_of(sampling="progress", uniform=0.1, tasks=tasks)
    counts = Counter()
    for number in range(200):
        batch = drawn(rows, number)
        counts.update(tasks[index] for index in batch)
        rows.observe(scored([[number / 200, number / 200] if index < 10 else [0.5, 0.5] for index in batch]))
    assert counts["moving"] > 2 * counts["still"] > 0


def test_unscored_groups_teach_nothing_about_a_row():
    rows = rows_of(sampling="spread")
    drawn(rows, 0)
    rows.observe(scored([[float("nan")] * 2] * 4))
    assert torch.equal(rows.weights(1), torch.full((20,), 1 / 20))


def test_a_saved_state_goes_on_with_the_same_rows():
    def advance(rows, numbers):
        found = []
        for number in numbers:
            found.append(drawn(rows, number))
            rows.observe(scored([[0.0, float(index % 3)] for index in found[-1]]))
        return found

    rows = rows_of(sampling="spread", uniform=0.2)
    advance(rows, range(5))
    pending = drawn(rows, 5)
    state = rows.state_dict()
    again = rows_of(sampling="spread", uniform=0.2)
    again.load_state_dict(state)
    assert drawn(again, 5) == pending
    assert advance(again, range(5, 12)) == advance(rows, range(5, 12))


LEVELS = [{**row, "level": place} for place, row in enumerate(ROWS)]


def test_a_run_with_a_curriculum_trains(tmp_path):
    seen = []

    def note(completions, level, **_):
        seen.append(sorted(set(level)))
        return [float(len(text) % 3) for text in completions]

    make_trainer(
        tmp_path, note, rows=LEVELS, max_steps=4, curriculum_column="level", curriculum_start=0.2, curriculum_steps=100
    ).train()
    assert len(seen) == 4
    assert all(max(levels) <= 4 for levels in seen)


def test_tasks_have_metrics_of_their_own(tmp_path):
    rows = [{**row, "task": ("a", "b")[place % 2]} for place, row in enumerate(ROWS)]
    make_trainer(tmp_path, rows=rows, max_steps=4, row_sampling="progress", scale_within_task=True).train()
    names = {name for line in metrics_of(tmp_path) for name in line}
    assert {"tasks/a/reward", "tasks/b/rewards/count_digits/mean"} <= names


@pytest.mark.parametrize(
    ("more", "rows", "says"),
    [
        ({"curriculum_column": "hardness"}, LEVELS, "no such column"),
        ({"curriculum_column": "answer"}, LEVELS, "expected a number"),
        ({"row_sampling": "bogus"}, LEVELS, "row_sampling"),
        ({"row_sampling": "spread", "dynamic_sampling": True}, LEVELS, "use one of them"),
        ({"curriculum_column": "level", "curriculum_start": 0.0}, LEVELS, "curriculum_start"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, more, rows, says):
    with pytest.raises(UsageError, match=says):
        make_trainer(tmp_path, rows=rows, **more)
