"""Several tasks in one run: metrics of each, and advantages that are compared within a task.

A rollout's task is the column `task` of its row. Groups never mix tasks, for a group is one row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..advantages import Advantages, compute_advantages, nan_std

TASK_COLUMN = "task"


def task_of(columns: Mapping[str, Any]) -> str | None:
    """The task of a row, None where it names none."""
    found = columns.get(TASK_COLUMN)
    return found if isinstance(found, str) else None


def completion_limit(columns: Mapping[str, Any], limits: Mapping[str, int] | None) -> int | None:
    """Most tokens of a completion of this row, by its task; None = as many as any may have."""
    return (limits or {}).get(task_of(columns) or "")


def task_metrics(
    tasks: Sequence[str | None],
    advantages: Advantages,
    names: Sequence[str],
    lengths: Sequence[int],
    truncated: Sequence[bool],
) -> dict[str, float]:
    """For each task what the totals say of all: nothing where no row names a task.

    tasks, lengths, truncated: of the N rollouts of all ranks. Under `tasks/{task}/`: `reward`, `reward_std`,
    `frac_group_zero_std`, `rewards/{name}/mean` of the rewards that scored any of its rollouts, `share` of all
    rollouts, `completions/mean_length` and `completions/clipped_ratio`.
    """
    found: dict[str, float] = {}
    size = len(tasks) // max(len(advantages.group_zero_std), 1)
    for task in sorted({task for task in tasks if task is not None}):
        places = [place for place, one in enumerate(tasks) if one == task]
        groups = sorted({place // size for place in places})
        rewards, scores = advantages.rewards[places], advantages.scores[places]
        own = {
            "reward": rewards.nanmean().item(),
            "reward_std": nan_std(rewards).item(),
            "frac_group_zero_std": advantages.group_zero_std[groups].float().mean().item(),
            "share": len(places) / len(tasks),
            "completions/mean_length": sum(lengths[place] for place in places) / len(places),
            "completions/clipped_ratio": sum(truncated[place] for place in places) / len(places),
        }
        for k, name in enumerate(names):
            if not scores[:, k].isnan().all():
                own[f"rewards/{name}/mean"] = scores[:, k].nanmean().item()
        found |= {f"tasks/{task}/{name}": value for name, value in own.items()}
    return found


def advantages_within_tasks(
    scores: Tensor, tasks: Sequence[str | None], *, dropped: Collection[int] = (), **options: Any
) -> Advantages:
    """`compute_advantages` of each task's rollouts by themselves, so that no task's spread scales another's.

    scores: (N, K); tasks: of the N rollouts; options: those of `compute_advantages`.
    """
    labels = list(dict.fromkeys(tasks))
    if len(labels) < 2:
        return compute_advantages(scores, dropped=dropped, **options)
    parts, order = [], []
    for label in labels:
        places = [place for place, task in enumerate(tasks) if task == label]
        own = {place: index for index, place in enumerate(places)}
        lost = [own[place] for place in dropped if place in own]
        parts.append(compute_advantages(scores[places], dropped=lost, **options))
        order += places
    back = torch.argsort(torch.tensor(order))
    groups = torch.argsort(torch.tensor(order).view(-1, options["num_generations"])[:, 0])

    def joined(name: str, places: Tensor) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts]).index_select(0, places)

    rows = {name: joined(name, back) for name in ("values", "rewards", "scores", "zero_std", "unscored")}
    infinite = sum(part.infinite for part in parts)
    return Advantages(**rows, group_zero_std=joined("group_zero_std", groups), infinite=infinite)
