"""A verifier or reward under audit, wrapped so that each judgement says how long it took."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import time
from collections.abc import Mapping
from typing import Any

from plaudit.plugins.component import Reward
from plaudit.plugins.contract import as_verdicts
from plaudit.plugins.declare import verifier
from plaudit.types import Text, Verdict

SECONDS = "audit_seconds"


@verifier(deterministic=False)
class Timed:
    """Judges with the component that `reference_text` names. The verdict gets the column `audit_seconds`.

    A process worker makes it again from its options, so each case can be stopped whatever it does.
    """

    def __init__(self, *, reference_text: str, options: Mapping[str, Any] | None = None) -> None:
        from plaudit.plugins.loading import load_reward

        self._reward = load_reward(reference_text, options=dict(options or {}))

    def verify(
        self, completion: str, reference: Any = None, completion_messages: Any = None, **columns: Any
    ) -> Verdict:
        started = time.perf_counter()
        verdict = judge_one(self._reward, completion_messages or completion, reference, columns)
        elapsed = time.perf_counter() - started
        return dataclasses.replace(verdict, columns={**verdict.columns, SECONDS: elapsed})


def judge_one(reward: Reward, completion: Text, reference: Any, columns: Mapping[str, Any]) -> Verdict:
    """The verdict of a verifier, or of a reward function given a batch of one. Coroutines are run to their end."""
    row = {**columns, "reference": reference}
    if reward.component.kind == "verifier":
        verdict: Verdict = _finished(reward.judge(completion, row))
        return verdict
    batch = {"completions": [completion], "prompts": [columns.get("prompt") or ""], **{k: [v] for k, v in row.items()}}
    returned = _finished(reward.component.target(**reward.component.select(batch)))
    return as_verdicts(returned, 1, reward.__name__)[0]


def _finished(returned: Any) -> Any:
    return asyncio.run(returned) if inspect.iscoroutine(returned) else returned
