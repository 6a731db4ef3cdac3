"""Completions of a task end where its own limit says."""

import pytest
from plaudit import UsageError

from runs import ROWS, make_trainer

TASKS = [{**row, "task": "short" if place % 2 else "long"} for place, row in enumerate(ROWS)]


def test_rows_have_the_limit_of_their_task(tmp_path):
    seen = []

    def keep(completion_ids, task, **kwargs):
        seen.extend(zip(task, map(len, completion_ids), strict=True))
        return [float(place) for place in range(len(task))]

    trainer = make_trainer(
        tmp_path, keep, rows=TASKS, task_max_completion_length={"short": 3}, max_completion_length=8, max_steps=4
    )
    trainer.train()
    longest = {task: max(length for one, length in seen if one == task) for task in ("short", "long")}
    assert longest == {"short": 3, "long": 8}
    logs = trainer.state.log_history[:-1]
    assert all(log.get("tasks/short/completions/mean_length", 3) <= 3 for log in logs)
    assert any(log.get("tasks/short/completions/clipped_ratio", 0) > 0 for log in logs)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"task_max_completion_length": {"shrot": 3}}, r"task 'shrot'.*'long', 'short'"),
        ({"task_max_completion_length": {"short": 3}, "rows": ROWS}, "no row has .*no task"),
        ({"task_max_completion_length": {"short": 3}, "remove_unused_columns": True}, "no row has"),
        ({"task_max_completion_length": {"short": 9}}, "is 9; it must be .* from 1 to max_completion_length .8."),
        ({"task_max_completion_length": "{}"}, "it must be a dict from a task"),
        ({"task_max_completion_length": {"short": 3}, "rollout_func": lambda prompts, trainer: {}}, "rollout_func"),
    ],
)
def test_a_limit_that_nothing_would_follow_is_refused(tmp_path, more, match):
    with pytest.raises(UsageError, match=match):
        make_trainer(tmp_path, **{"rows": TASKS, **more})
