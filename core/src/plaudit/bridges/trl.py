"""Any reward or verifier as a reward function of TRL's trainers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plaudit.scoring.spec import RewardSpec
from plaudit.scoring.table import ScoreTable
from plaudit.types import Rollout, Row, Text

from .standalone import StandaloneReward


def reward_func(
    reference: str | Callable[..., Any] | RewardSpec,
    *,
    options: Mapping[str, Any] | None = None,
    reference_column: str | None = None,
    name: str | None = None,
    **policy: Any,
) -> TRLReward:
    """A function for `reward_funcs` of TRL's GRPOTrainer: `reward_func("math", timeout_s=5)`.

    It is asynchronous, so TRL awaits several of them at one time, and runs with the runtime's policy (RewardSpec's
    fields), so that a hanging judge or hostile answer cannot stop training. A reward that cannot score gives None.
    Raises what `load_reward` raises.
    """
    settings = {"options": options, "reference_column": reference_column, "name": name, **policy}
    return TRLReward(reference, {key: value for key, value in settings.items() if value is not None})


class TRLReward:
    """See `reward_func`. It pickles as what it was made from."""

    def __init__(self, reference: str | Callable[..., Any] | RewardSpec, settings: Mapping[str, Any]) -> None:
        self._reference = reference
        self._settings = dict(settings)
        self._reward = StandaloneReward(reference, **self._settings)
        self.__name__ = self._reward.name

    async def __call__(
        self,
        prompts: Sequence[Text],
        completions: Sequence[Text],
        completion_ids: Sequence[Sequence[int]] | None = None,
        trainer_state: Any = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        environments: Sequence[Any] | None = None,
        **columns: Sequence[Any],
    ) -> list[float | None]:
        """TRL's contract: one score a completion, None where there is none."""
        ids = completion_ids or [()] * len(completions)
        held = environments or [None] * len(completions)
        rollouts = [
            Rollout(
                index=place,
                row=Row(prompts[place], {name: values[place] for name, values in columns.items()}),
                completion=completions[place],
                completion_ids=tuple(ids[place]),
                environment=held[place],
            )
            for place in range(len(completions))
        ]
        table = await self._reward.table(rollouts, num_generations=group_size(prompts), trainer_state=trainer_state)
        _log(table, log_extra, log_metric)
        return [row[0] for row in table.scores]

    def close(self) -> None:
        """End its workers; they also end with the program."""
        self._reward.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return TRLReward, (self._reference, self._settings)


def group_size(prompts: Sequence[Any]) -> int:
    """How many neighbours at the front have one prompt, if the whole batch is made of groups of that size; else 1."""
    first = next((place for place, prompt in enumerate(prompts) if prompt != prompts[0]), len(prompts))
    starts = range(0, len(prompts), max(first, 1))
    even = len(prompts) % max(first, 1) == 0
    return first if even and all(prompts[at] == prompts[at + first - 1] for at in starts) else 1


def _log(table: ScoreTable, log_extra: Any, log_metric: Any) -> None:
    """Hand on what the reward logged."""
    if log_extra is not None:
        for name, values in table.columns.items():
            log_extra(name, list(values))
    if log_metric is not None:
        for name, value in table.metrics.items():
            log_metric(name, value)
