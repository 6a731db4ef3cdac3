"""Any reward or verifier as a reward function of TRL's trainers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError
from plaudit.scoring.spec import RewardSpec
from plaudit.scoring.table import ScoreTable
from plaudit.types import Rollout, Row, Text

from .standalone import StandaloneReward

LogExtra = Callable[[str, list[Any]], None]


def reward_func(
    reference: str | Callable[..., Any] | RewardSpec,
    *,
    options: Mapping[str, Any] | None = None,
    reference_column: str | None = None,
    name: str | None = None,
    num_generations: int | None = None,
    **policy: Any,
) -> TRLReward:
    """A function for `reward_funcs` of TRL's GRPOTrainer: `reward_func("math", timeout_s=5)`.

    It is asynchronous, so TRL awaits several of them at one time, and runs with the runtime's policy (RewardSpec's
    fields), so that a hanging judge or hostile answer cannot stop training. A reward that cannot score gives None.
    num_generations: rollouts of a group; by default neighbours whose rows are equal are one. Raises what `load_reward`
    raises, and UsageError on a policy that does not exist.
    """
    own = {"options": options, "reference_column": reference_column, "name": name, "num_generations": num_generations}
    settings = {**own, **policy}
    return TRLReward(reference, {key: value for key, value in settings.items() if value is not None})


class TRLReward:
    """See `reward_func`. It pickles as what it was made from."""

    def __init__(self, reference: str | Callable[..., Any] | RewardSpec, settings: Mapping[str, Any]) -> None:
        self._reference = reference
        self._settings = dict(settings)
        self._num_generations: int | None = self._settings.get("num_generations")
        of_reward = {key: value for key, value in self._settings.items() if key != "num_generations"}
        self._reward = StandaloneReward(reference, **of_reward)
        self._shown = ExtraColumns()
        self.__name__ = self._reward.name

    async def __call__(
        self,
        prompts: Sequence[Text],
        completions: Sequence[Text],
        completion_ids: Sequence[Sequence[int]] | None = None,
        trainer_state: Any = None,
        log_extra: LogExtra | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        environments: Sequence[Any] | None = None,
        **columns: Sequence[Any],
    ) -> list[float | None]:
        """TRL's contract: one score a completion, None where there is none."""
        count = len(completions)
        given = {"prompts": prompts, "completion_ids": completion_ids, "environments": environments, **columns}
        for column, values in given.items():
            _check_length(self.__name__, column, values, count)
        cells = [{name: values[place] for name, values in columns.items()} for place in range(count)]
        rows = [Row(prompt, own) for prompt, own in zip(prompts, cells, strict=True)]
        ids = [()] * count if completion_ids is None else completion_ids
        held = environments or [None] * count
        rollouts = [
            Rollout(place, row, completions[place], completion_ids=tuple(ids[place]), environment=held[place])
            for place, row in enumerate(rows)
        ]
        size = self._num_generations or group_size(rows)
        table = await self._reward.table(
            rollouts, num_generations=1 if count % size else size, trainer_state=trainer_state
        )
        self._shown.log(table.columns, count, log_extra)
        if log_metric is not None:
            for name, value in table.metrics.items():
                log_metric(name, value)
        return kept_scores(table, 0)

    def close(self) -> None:
        """End its workers; they also end with the program."""
        self._reward.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return TRLReward, (self._reference, self._settings)


class ExtraColumns:
    """The columns of TRL's table of completions that rewards log.

    TRL keeps what a column was given last, so that old values would stand beside new rows, and its table is refused
    where one is shorter or of two types: each is given again with every batch, from its first one on with a cell for
    all rows, and keeps its type; texts in a column of numbers have a column of their own, `NAME_text`.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, bool] = {}
        self._rows = 0

    def log(self, columns: Mapping[str, Sequence[Any]], count: int, log_extra: LogExtra | None) -> None:
        """Hand on the columns of a batch of `count` rows."""
        if log_extra is None:
            return
        typed: dict[str, list[Any]] = {}
        for name, values in columns.items():
            typed |= self._typed(name, values)
        for name in [name for name in typed if name not in self._numbers]:
            self._numbers[name] = all(value is None or isinstance(value, float) for value in typed[name])
            if self._rows:
                log_extra(name, [None] * self._rows)
        for name in self._numbers:
            log_extra(name, typed.get(name, [None] * count))
        self._rows += count

    def _typed(self, name: str, values: Sequence[Any]) -> dict[str, list[Any]]:
        texts = [None if value is None else str(value) for value in values]
        numbers = [float(value) if isinstance(value, (bool, int, float)) else None for value in values]
        rest = [None if number is not None else text for number, text in zip(numbers, texts, strict=True)]
        if not self._numbers.get(name, rest.count(None) == len(rest)):
            return {name: texts}
        return {name: numbers} | ({} if rest.count(None) == len(rest) else {f"{name}_text": rest})


def kept_scores(table: ScoreTable, place: int) -> list[float | None]:
    """What one reward of a table says of each rollout; None for all of a group that a failure dropped."""
    return [None if row in table.dropped else scores[place] for row, scores in enumerate(table.scores)]


def group_size(rows: Sequence[Row]) -> int:
    """How many neighbours at the front are one row, if the whole batch is made of groups of that size; else 1."""
    first = next((place for place, row in enumerate(rows) if not _equal(row, rows[0])), len(rows)) or 1
    groups = [rows[at : at + first] for at in range(0, len(rows), first)]
    return first if all(len(group) == first and _equal(group[0], group[-1]) for group in groups) else 1


def _equal(one: Row, other: Row) -> bool:
    """Whether two rows hold the same, as far as that can be told: arrays and images do not all compare."""
    pairs = [(one.prompt, other.prompt), *((value, other.columns.get(name)) for name, value in one.columns.items())]
    for first, second in pairs:
        try:
            if not bool(first == second):
                return False
        except (ValueError, RuntimeError):
            continue
    return True


def _check_length(reward: str, column: str, values: Any, count: int) -> None:
    if values is None or (column == "environments" and not values):
        return
    if not hasattr(values, "__len__"):
        raise UsageError(f"reward '{reward}': {column} is {values!r:.60}; expected a list with one entry a completion")
    if len(values) != count:
        raise UsageError(
            f"reward '{reward}': {column} has {len(values)} entries for {count} completions; expected one for each"
        )
