"""One reward outside a training run, with the timeouts, processes and retries of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any

from plaudit.errors import PlauditError, UsageError
from plaudit.plugins.loading import load_reward
from plaudit.scoring.awaiting import submitted, table_of
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import RewardSpec
from plaudit.scoring.table import ScoreTable
from plaudit.types import Rollout, Row, Text

POLICY = {one.name for one in fields(RewardSpec)} - {"reward", "name", "reference_column", "weight", "after"}
"""What a reward by itself can be told of how it is run."""


class Abstained(PlauditError):
    """A reward gave no score where the other side cannot do without one."""


class Failed(Abstained):
    """It gave none because it failed."""


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
            raise (Abstained if self.failure is None else Failed)(
                f"reward '{name}' has no score for this completion ({why}), and the caller needs a number; "
                "say which with abstain_score"
            )
        return if_abstains


@dataclass(frozen=True, slots=True)
class Asked:
    """A completion to be judged, with the columns of its row."""

    completion: Text
    columns: Mapping[str, Any]
    prompt: Text = ""


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
        """`policy`: fields of RewardSpec, such as timeout_s. Raises what `load_reward` raises, and UsageError."""
        _check_policy(policy)
        if isinstance(reference, RewardSpec):
            if options:
                raise UsageError(f"options = {dict(options)!r:.80}: this RewardSpec has its reward already")
            given: dict[str, Any] = {"name": name, "reference_column": reference_column}
            spec = replace(reference, **{key: one for key, one in given.items() if one is not None}, **policy)
        else:
            reward = load_reward(reference, options=options, name=name, reference_column=reference_column)
            spec = RewardSpec(reward, reward.__name__, **policy)
        self.spec = spec
        self.name = spec.name
        self._scorer = Scorer([spec], max_unscored_share=None)

    def check_alone(self) -> None:
        """Raise UsageError where it compares the completions of a group, but is asked about one at a time."""
        if self._scorer.runtimes[0].policy.granularity == "group":
            raise UsageError(
                f"reward '{self.name}' compares the completions of a group, but is asked here about one at a time; "
                "use it in Plaudit's own trainer or TRL's"
            )

    async def judge(self, completion: Text, columns: Mapping[str, Any], *, prompt: Text = "") -> Judged:
        """What the reward says of one completion; `columns`: the row's."""
        self.check_alone()
        return self._judged(await self.table([Rollout(0, Row(prompt, columns), completion)]))

    def judge_now(self, asked: Sequence[Asked]) -> list[Judged]:
        """What it says of several, each by itself and all at one time. Blocks."""
        self.check_alone()
        with ExitStack() as open_ones:
            sessions = [
                open_ones.enter_context(
                    submitted(self._scorer, [Rollout(0, Row(one.prompt, one.columns), one.completion)])
                )
                for one in asked
            ]
            return [self._judged(session.result()) for session in sessions]

    async def table(
        self, rollouts: Sequence[Rollout], *, num_generations: int | None = None, trainer_state: Any = None
    ) -> ScoreTable:
        """The scores of a batch."""
        with submitted(self._scorer, rollouts, num_generations=num_generations, trainer_state=trainer_state) as session:
            return await table_of(session)

    def close(self) -> None:
        """End its workers."""
        self._scorer.close()

    def _judged(self, table: ScoreTable) -> Judged:
        """The table of one rollout."""
        prefix = f"{self.name}/"
        cells = {name.removeprefix(prefix): values[0] for name, values in table.columns.items()}
        failure = next(iter(table.failures), None)
        own = ("reason", "extracted", "failure")
        return Judged(
            score=table.scores[0][0],
            reason=cells.get("reason") or "",
            extracted=cells.get("extracted"),
            metrics={name.removeprefix(prefix): value for name, value in table.metrics.items()},
            columns={name: value for name, value in cells.items() if name not in own and value is not None},
            failure=None if failure is None else str(failure),
            failure_kind=None if failure is None else failure.kind,
        )


def _check_policy(policy: Mapping[str, Any]) -> None:
    """Raise UsageError on what no field of RewardSpec is, or has no meaning for one reward by itself."""
    for name in policy.keys() - POLICY:
        if name == "weight":
            raise UsageError(f"weight = {policy[name]!r}: the trainer weighs its rewards (TRL: reward_weights)")
        if name == "after":
            raise UsageError(f"after = {policy[name]!r}: a reward by itself has no other to wait for")
        close = get_close_matches(name, POLICY, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise UsageError(f"a reward takes no '{name}'{hint} (it takes {', '.join(sorted(POLICY))})")
