"""Rows that are drawn by what was learnt from them so far: easy ones first, or those that still teach.

Prioritising rows whose rollouts differ: prioritised level replay (arXiv 2010.03934) with the spread of rewards as the
score; tasks by learning progress: teacher-student curriculum learning (1707.00183).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...errors import UsageError
from ..collected import Collected
from .streams import streams
from .tasks import task_of

SAMPLINGS = ("shuffle", "spread", "progress")
_FAST, _SLOW, _SPREAD = 0.3, 0.05, 0.5


@dataclass(frozen=True, slots=True)
class Curriculum:
    """Rows by `difficulty` (N,): the easiest `start` share first, all of them from optimizer step `steps` on."""

    difficulty: Tensor
    start: float
    steps: int

    def admitted(self, step: float, *, at_least: int = 1) -> Tensor:
        """(N,) bool: which rows take part at a step, `at_least` so many; rows as difficult as the last of them do."""
        share = min(1.0, self.start + (1 - self.start) * step / self.steps)
        count = max(at_least, math.ceil(share * len(self.difficulty)))
        return self.difficulty <= self.difficulty.sort().values[count - 1]


@dataclass(slots=True, eq=False)
class ChosenRows:
    """Generation batches of rows drawn with weights, without repetition inside a batch.

    `sampling`: one of `SAMPLINGS`; `uniform`: the share of the draws that is even all the same; `tasks`: of each row.
    `step_of`: a generation batch's number to the optimizer step that learns from it. What is drawn follows from the
    seed and from the rewards seen, so it is the same on all ranks, and a checkpoint keeps both.
    """

    dataset: Any
    prompts_per_batch: int
    seed: int
    sampling: str
    uniform: float
    tasks: Sequence[str | None]
    step_of: Callable[[int], float]
    curriculum: Curriculum | None = None
    batches_per_epoch: int = field(init=False)
    _chosen: dict[int, tuple[int, ...]] = field(init=False, default_factory=dict)
    _spread: Tensor = field(init=False)
    _fast: dict[str | None, float] = field(init=False, default_factory=dict)
    _slow: dict[str | None, float] = field(init=False, default_factory=dict)
    _generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        """Raise UsageError when there are too few rows for a batch."""
        if len(self.dataset) < self.prompts_per_batch:
            raise UsageError(
                f"the dataset has {len(self.dataset)} rows but one generation batch takes {self.prompts_per_batch}"
            )
        self.batches_per_epoch = len(self.dataset) // self.prompts_per_batch
        self._spread = torch.full((len(self.dataset),), torch.nan)
        self._generator = torch.Generator().manual_seed(self.seed)

    def records(self, number: int, places: Sequence[int]) -> list[Mapping[str, Any]]:
        """The rows at these places of generation batch `number`."""
        if number not in self._chosen:
            self._chosen[number] = self._draw(number)
        return [self.dataset[self._chosen[number][place]] for place in places]

    def observe(self, collected: Collected) -> None:
        """Learn from the scores of the oldest batch that is still waited for."""
        if not self._chosen:
            return
        indices = self._chosen.pop(min(self._chosen))
        rewards = collected.advantages.rewards.view(len(indices), -1)
        for index, group in zip(indices, rewards, strict=True):
            seen = group[~group.isnan()]
            if len(seen):
                self._learn(index, float(seen.mean()), float(seen.std(correction=0)))

    def state_dict(self) -> dict[str, Any]:
        """Statistics, random state, and the batches that are drawn but not scored."""
        return {
            "chosen": {number: list(indices) for number, indices in self._chosen.items()},
            "spread": self._spread,
            "tasks": [(task, self._fast[task], self._slow[task]) for task in self._fast],
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self._chosen = {number: tuple(indices) for number, indices in state["chosen"].items()}
        self._spread = state["spread"].clone()
        self._fast = {task: fast for task, fast, _ in state["tasks"]}
        self._slow = {task: slow for task, _, slow in state["tasks"]}
        self._generator.set_state(state["generator"])

    def weights(self, number: int) -> Tensor:
        """(N,) the chance of each row in generation batch `number`, relative to the others."""
        allowed = self._allowed(number)
        if self.sampling == "shuffle":
            return allowed
        preferred = (self._by_spread() if self.sampling == "spread" else self._by_progress()) * allowed
        even = allowed / allowed.sum()
        if preferred.sum() == 0:
            return even
        return self.uniform * even + (1 - self.uniform) * preferred / preferred.sum()

    def _allowed(self, number: int) -> Tensor:
        """(N,) 1 for the rows that take part: all, or the easiest, but never fewer than a batch takes."""
        if self.curriculum is None:
            return torch.ones(len(self.dataset))
        return self.curriculum.admitted(self.step_of(number), at_least=self.prompts_per_batch).float()

    def _draw(self, number: int) -> tuple[int, ...]:
        weights = self.weights(number)
        if int((weights > 0).sum()) < self.prompts_per_batch:  # those that still teach are too few: others fill up
            weights = weights + 1e-9 * self._allowed(number)
        drawn = torch.multinomial(weights, self.prompts_per_batch, replacement=False, generator=self._generator)
        return tuple(drawn.tolist())

    def _learn(self, index: int, mean: float, spread: float) -> None:
        before = float(self._spread[index])
        self._spread[index] = spread if math.isnan(before) else before + _SPREAD * (spread - before)
        task = self.tasks[index]
        for averages, rate in ((self._fast, _FAST), (self._slow, _SLOW)):
            averages[task] = averages.get(task, mean) + rate * (mean - averages.get(task, mean))

    def _by_spread(self) -> Tensor:
        """A row's spread; one that was never drawn counts as much as the best."""
        known = self._spread[~self._spread.isnan()]
        return self._spread.nan_to_num(nan=float(known.max()) if len(known) and known.max() > 0 else 1.0)

    def _by_progress(self) -> Tensor:
        """How fast the reward of a row's task is changing, shared by its rows; an unseen task counts as the fastest."""
        progress = {task: abs(self._fast[task] - self._slow[task]) for task in self._fast}
        most = max(progress.values(), default=0.0) or 1.0
        counts = {task: self.tasks.count(task) for task in set(self.tasks)}
        by_task = {task: progress.get(task, most) / counts[task] for task in counts}
        return torch.tensor([by_task[task] for task in self.tasks])


def chooses(args: Any) -> bool:
    """Whether a configuration draws rows by more than a shuffle."""
    return args.row_sampling != "shuffle" or args.curriculum_column is not None


def check_choice(args: Any, dataset: Any) -> None:
    """Raise UsageError on a dataset whose rows cannot be drawn as the configuration says."""
    if not chooses(args):
        return
    if streams(dataset):
        raise UsageError(
            "row_sampling and curriculum_column need rows that can be drawn in any order; this one streams"
        )
    if args.curriculum_column is not None:
        difficulties(dataset, args.curriculum_column)


def build_chosen_rows(args: Any, dataset: Any, prompts: int) -> ChosenRows:
    """The rows of a run that chooses. `prompts`: of a generation batch."""
    cycle = args.steps_per_generation * args.num_iterations / args.gradient_accumulation_steps
    curriculum = None
    if args.curriculum_column is not None:
        found = torch.tensor(difficulties(dataset, args.curriculum_column), dtype=torch.float64)
        curriculum = Curriculum(found, args.curriculum_start, args.curriculum_steps)
    return ChosenRows(
        dataset=dataset,
        prompts_per_batch=prompts,
        seed=args.seed,
        sampling=args.row_sampling,
        uniform=args.row_sampling_uniform,
        tasks=[task_of(dataset[index]) for index in range(len(dataset))],
        step_of=lambda number: number * cycle,
        curriculum=curriculum,
    )


def difficulties(dataset: Any, column: str) -> list[float]:
    """The numbers of a column. Raises UsageError on a column that is missing, or a value that is no number."""
    found = []
    for index in range(len(dataset)):
        row = dataset[index]
        if column not in row:
            raise UsageError(f"curriculum_column={column!r}: row {index} has no such column (it has {', '.join(row)})")
        value = row[column]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise UsageError(f"curriculum_column={column!r}: row {index} has {value!r}; expected a number")
        found.append(float(value))
    return found
