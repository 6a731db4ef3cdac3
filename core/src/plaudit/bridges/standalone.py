"""One reward outside a training run, with the timeouts, processes and retries of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plaudit.errors import PlauditError
from plaudit.plugins.loading import load_reward
from plaudit.scoring.awaiting import submitted, table_of
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import RewardSpec
from plaudit.scoring.table import ScoreTable
from plaudit.types import Rollout, Row, Text


class Abstained(PlauditError):
    """A reward gave no score where the other side cannot do without one."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a reward said of one completion. `failure`: why there is no score, when it failed; else it abstained."""

    score: float | None
    reason: str = ""
    extracted: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    failure: str | None = None
    failure_kind: str | None = None

    def number(self, name: str, if_abstains: float | None) -> float:
        """The score, or `if_abstains` where there is none. Raises Abstained when that is None as well."""
        if self.score is not None:
            return self.score
        if if_abstains is None:
            why = self.failure or self.reason or "it abstained"
            raise Abstained(
                f"reward '{name}' has no score for this completion ({why}), and the caller needs a number; "
                "say which with abstain_score"
            )
        return if_abstains


class StandaloneReward:
    """A reward or verifier, callable from threads and coroutines. Close it, or let it end with the program."""

    def __init__(
        self,
        reference: str | Callable[..., Any] | RewardSpec,
        *,
        options: Mapping[str, Any] | None = None,
        reference_column: str | None = None,
        name: str | None = None,
        **policy: Any,
    ) -> None:
        """`policy`: fields of RewardSpec, such as timeout_s. Raises what `load_reward` raises."""
        if isinstance(reference, RewardSpec):
            spec = reference
        else:
            reward = load_reward(reference, options=options, name=name, reference_column=reference_column)
            spec = RewardSpec(reward, reward.__name__, **policy)
        self.spec = spec
        self.name = spec.name
        self._scorer = Scorer([spec], max_unscored_share=None)

    async def judge(self, completion: Text, columns: Mapping[str, Any], *, prompt: Text = "") -> Judged:
        """What the reward says of one completion; `columns`: the row's."""
        return self._judged(await self.table([Rollout(0, Row(prompt, columns), completion)]), 0)

    def judge_now(self, completion: Text, columns: Mapping[str, Any], *, prompt: Text = "") -> Judged:
        """`judge`, blocking."""
        with submitted(self._scorer, [Rollout(0, Row(prompt, columns), completion)]) as session:
            return self._judged(session.result(), 0)

    async def table(
        self, rollouts: Sequence[Rollout], *, num_generations: int | None = None, trainer_state: Any = None
    ) -> ScoreTable:
        """The scores of a batch."""
        with submitted(self._scorer, rollouts, num_generations=num_generations, trainer_state=trainer_state) as session:
            return await table_of(session)

    def close(self) -> None:
        """End its workers."""
        self._scorer.close()

    def _judged(self, table: ScoreTable, place: int) -> Judged:
        prefix = f"{self.name}/"
        cells = {name.removeprefix(prefix): values[place] for name, values in table.columns.items()}
        failure = next((one for one in table.failures if place in one.rollouts), None)
        own = ("reason", "extracted", "failure")
        return Judged(
            score=table.scores[place][0],
            reason=cells.get("reason") or "",
            extracted=cells.get("extracted"),
            metrics={name.removeprefix(prefix): value for name, value in table.metrics.items()},
            columns={name: value for name, value in cells.items() if name not in own and value is not None},
            failure=None if failure is None else str(failure),
            failure_kind=None if failure is None else failure.kind,
        )
