"""Judges of a whole group: every pair in both orders, or all at once as a list of scores."""

from __future__ import annotations

import asyncio
from itertools import combinations
from typing import Any

from plaudit import Verdict, completion_text, reward

from plaudit_judge import replies
from plaudit_judge.client import Chat, Reply, Server
from plaudit_judge.prompts import build
from plaudit_judge.rewards import DEFAULT_RUBRIC, prompt_text, spent

GROUP = {"granularity": "group", "timeout_s": 300.0, "retries": 2, "on_error": "abstain"}
_WINNERS = {"1": 1.0, "2": 0.0, "TIE": 0.5}


def pair_score(first_order: float | None, swapped_order: float | None) -> float | None:
    """One candidate's score from both presentations, each already from its point of view; None where either is unclear.

    A winner that changes with the order is a tie.
    """
    if first_order is None or swapped_order is None:
        return None
    return first_order if first_order == swapped_order else 0.5


@reward(**GROUP)
class JudgePairwise:
    """The share of comparisons within its group that a completion wins; each pair is judged in both orders.

    A group of G costs G (G - 1) calls, `max_in_flight` at a time. A completion without a clear comparison abstains.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        server: dict[str, Any] | None = None,
        rubric: str = DEFAULT_RUBRIC,
        max_in_flight: int = 8,
    ) -> None:
        self._chat = Chat(Server.from_options(model, base_url, server))
        self._rubric, self._max_in_flight = rubric, max_in_flight
        self._ask = "Which candidate is better? End with one line: Winner-{nonce}: 1, 2 or TIE."

    async def __call__(self, completions: list[Any], prompts: list[Any], **_: Any) -> list[Verdict]:
        texts = [completion_text(completion) for completion in completions]
        pairs = list(combinations(range(len(texts)), 2))
        gate = asyncio.Semaphore(self._max_in_flight)
        outcomes = await asyncio.gather(*(self._pair(gate, texts, prompts, *pair) for pair in pairs))
        won: list[list[float]] = [[] for _ in texts]
        for (first, second), (score, _) in zip(pairs, outcomes, strict=True):
            if score is not None:
                won[first].append(score)
                won[second].append(1.0 - score)
        costs = _shared(spent_list=[cost for _, both in outcomes for cost in both], count=len(texts))
        return [_mean_verdict(scores, costs) for scores in won]

    async def _pair(
        self, gate: asyncio.Semaphore, texts: list[str], prompts: list[Any], first: int, second: int
    ) -> tuple[float | None, list[dict[str, float]]]:
        question = prompt_text(prompts[first])
        ahead, back = await asyncio.gather(
            self._once(gate, question, texts[first], texts[second]),
            self._once(gate, question, texts[second], texts[first]),
        )
        swapped = None if back[0] is None else 1.0 - back[0]
        return pair_score(ahead[0], swapped), [spent(ahead[1]), spent(back[1])]

    async def _once(
        self, gate: asyncio.Semaphore, question: str | None, one: str, two: str
    ) -> tuple[float | None, Reply]:
        asked = build([one, two], rubric=self._rubric, ask=self._ask, question=question)
        async with gate:
            reply = await self._chat.ask(asked.messages)
        try:
            return replies.read_grade(reply.text, f"Winner-{asked.nonce}: 1|2|TIE", _WINNERS), reply
        except replies.Unclear:
            return None, reply


@reward(**GROUP)
class JudgeRanking:
    """The judge sees the whole group at once and scores each completion on `scale`; one call a group.

    A reply that is not one list of G numbers on the scale abstains for the group.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        server: dict[str, Any] | None = None,
        rubric: str = DEFAULT_RUBRIC,
        scale: tuple[float, float] = (0, 10),
    ) -> None:
        self._chat = Chat(Server.from_options(model, base_url, server))
        self._rubric, self._scale = rubric, scale

    async def __call__(self, completions: list[Any], prompts: list[Any], **_: Any) -> list[Verdict]:
        texts = [completion_text(completion) for completion in completions]
        low, high = self._scale
        ask = (
            f"Score all {len(texts)} candidates from {low:g} to {high:g}. End with nothing but a JSON list of "
            f"{len(texts)} numbers, in the order of the candidates."
        )
        asked = build(texts, rubric=self._rubric, ask=ask, question=prompt_text(prompts[0]))
        reply = await self._chat.ask(asked.messages)
        costs = _shared([spent(reply)], len(texts))
        try:
            scores = replies.read_json_scores(reply.text, len(texts), self._scale)
        except replies.Unclear as error:
            return [Verdict.abstain(str(error), metrics=costs)] * len(texts)
        return [Verdict(score, metrics=costs) for score in scores]


def _shared(spent_list: list[dict[str, float]], count: int) -> dict[str, float]:
    """The group's tokens and cost, an equal share for each of its completions."""
    names = dict.fromkeys(name for one in spent_list for name in one)
    return {name: sum(one[name] for one in spent_list) / count for name in names}


def _mean_verdict(scores: list[float], metrics: dict[str, float]) -> Verdict:
    if not scores:
        return Verdict.abstain("no comparison was clear", metrics=metrics)
    return Verdict(sum(scores) / len(scores), metrics=metrics)
