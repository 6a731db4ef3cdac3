"""Warnings for people: what failed, who abstained, what no reward tells apart. One line each, never a flood."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from plaudit.scoring.plan import RewardPlan
from plaudit.scoring.table import ScoreTable
from plaudit.types import Verdict

CONSTANT_STEPS = 20
NO_SIGNAL_STEPS = 50
WAITED_S = 1.0
_log = logging.getLogger("plaudit.scoring")


class Watch:
    """Looks at each table in turn. Abstentions are reported again when their number has doubled."""

    def __init__(self) -> None:
        self._abstained: dict[str, int] = {}
        self._reported: dict[str, int] = {}
        self._constant: dict[str, tuple[float, int]] = {}
        self._without_signal = 0

    def look(self, table: ScoreTable, plans: Sequence[RewardPlan], *, group_size: int, step: int, mode: str) -> None:
        """Warn about one finished session."""
        self._failures(table, step)
        if table.waited_on is not None and table.waited_on[1] >= WAITED_S:
            _log.info("step %d waited on '%s' for %.1f s", step, *table.waited_on)
        for plan in plans:
            self._abstentions(plan, step)
        if mode == "train" and table.scores:
            self._constants(table)
            self._signal(table, group_size)

    def _failures(self, table: ScoreTable, step: int) -> None:
        by_reward: dict[str, list[str]] = {}
        for failure in table.failures:
            by_reward.setdefault(failure.reward, []).extend([str(failure)] * len(failure.rollouts))
        for reward, messages in by_reward.items():
            _log.warning("step %d: reward '%s' failed on %d of %d rollouts, first with %s", step, reward, len(messages),
                         len(table.scores), messages[0])  # fmt: skip

    def _abstentions(self, plan: RewardPlan, step: int) -> None:
        name = plan.runtime.name
        total = self._abstained[name] = self._abstained.get(name, 0) + plan.stats.abstentions
        if total == 0 or total < 2 * self._reported.get(name, 0):
            return
        self._reported[name] = total
        reasons = [v.reason for v in plan.values if isinstance(v, Verdict) and v.score is None and v.reason]
        because = f"; e.g. {reasons[0]}" if reasons else ""
        _log.warning("step %d: reward '%s' has given no score %d times so far%s", step, name, total, because)

    def _constants(self, table: ScoreTable) -> None:
        """A reward that scores every rollout alike for many steps is probably looking for the wrong thing."""
        for k, name in enumerate(table.names):
            found = {score for row in table.scores if (score := row[k]) is not None}
            value, steps = self._constant.get(name, (0.0, 0))
            if len(found) != 1:
                if found:
                    self._constant[name] = (0.0, 0)
                continue
            (score,) = found
            steps = steps + 1 if steps and value == score else 1
            self._constant[name] = (score, steps)
            if steps == CONSTANT_STEPS:
                _log.warning(
                    "reward '%s' has scored %g for every rollout of the last %d steps: check what it looks for",
                    name, score, steps,
                )  # fmt: skip

    def _signal(self, table: ScoreTable, group_size: int) -> None:
        groups = [table.scores[i : i + group_size] for i in range(0, len(table.scores), group_size)]
        flat = all(len(set(group)) == 1 for group in groups)
        self._without_signal = self._without_signal + 1 if flat else 0
        if self._without_signal and self._without_signal % NO_SIGNAL_STEPS == 0:
            _log.warning(
                "no signal: for %d steps no reward has told two completions of one group apart, so nothing is learnt. "
                "Check the rewards, the temperature and how hard the rows are", self._without_signal,
            )  # fmt: skip
