"""The HTTP side of `plaudit serve`: `GET /rewards/NAME` says what it is, `POST` scores rollouts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from plaudit.errors import UsageError
from plaudit.plugins.component import REWARD_CONTRACT
from plaudit.plugins.remote import FORMAT
from plaudit.scoring.awaiting import submitted, table_of
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.session import ScoringSession
from plaudit.scoring.spec import RewardSpec
from plaudit.scoring.table import ScoreTable
from plaudit.scoring.web import WebLimits, web_app
from plaudit.types import Rollout, Row

if TYPE_CHECKING:
    from aiohttp import web

_NOT_SENT = frozenset({"trainer_state", "log_extra", "log_metric"})


class RewardServer:
    """Scores for remote trainers. One scorer a reward; a request's rollouts of granularity rollout are scored apart."""

    def __init__(
        self, specs: Sequence[RewardSpec], *, limits: WebLimits | None = None, max_rollouts: int = 4096
    ) -> None:
        for spec in specs:
            live = sorted({"environments", "trainer_state"} & spec.reward.component.signature.required)
            if live:
                raise UsageError(
                    f"reward '{spec.name}' needs {live[0]}, which stays with the trainer; it cannot be served"
                )
        self._scorers = {spec.name: Scorer([spec], max_unscored_share=None) for spec in specs}
        self._limits = limits or WebLimits()
        self._max_rollouts = max_rollouts

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web_app(self._limits)
        app.router.add_get("/health", self._health)
        app.router.add_get("/rewards/{name}", self._describe)
        app.router.add_post("/rewards/{name}", self._score)
        app.cleanup_ctx.append(self._life)
        return app

    def close(self) -> None:
        """End all scorers."""
        for scorer in self._scorers.values():
            scorer.close()

    async def _life(self, _: web.Application) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(self.close)

    async def _health(self, _: web.Request) -> web.Response:
        from aiohttp import web

        states = {name: scorer.runtimes[0].breaker.state for name, scorer in self._scorers.items()}
        ok = all(state == "closed" for state in states.values())
        return web.json_response({"status": "ok" if ok else "degraded", "rewards": states})

    async def _describe(self, request: web.Request) -> web.Response:
        from aiohttp import web

        from plaudit.plugins.fingerprint import fingerprint

        runtime = self._scorer(request).runtimes[0]
        component = runtime.spec.reward.component
        return web.json_response(
            {
                "format": FORMAT,
                "kind": component.kind,
                "names": sorted(component.signature.names - _NOT_SENT),
                "required": sorted(component.signature.required - _NOT_SENT),
                "takes_any": component.signature.takes_any,
                "granularity": runtime.policy.granularity,
                "deterministic": runtime.policy.deterministic,
                "version": f"{component.distribution} {component.version} {fingerprint(component)}",
                "doc": component.target.__doc__,
            }
        )

    async def _score(self, request: web.Request) -> web.StreamResponse:
        """Stream one JSON line a rollout, each as soon as it is known."""
        from aiohttp import web

        scorer = self._scorer(request)
        rollouts = self._rollouts(await self._json(request), scorer)
        single = scorer.runtimes[0].policy.granularity == "rollout"
        parts = [[rollout] for rollout in rollouts] if single else [rollouts]
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        with ExitStack() as stack:
            sessions = [stack.enter_context(submitted(scorer, part)) for part in parts]
            tables = [_scored(session, part) for session, part in zip(sessions, parts, strict=True)]
            await response.prepare(request)
            for done in asyncio.as_completed(tables):
                part, table = await done
                lines = [json.dumps({"index": rollout.index, **_result(table, i)}) for i, rollout in enumerate(part)]
                await response.write("".join(line + "\n" for line in lines).encode())
        await response.write_eof()
        return response

    def _scorer(self, request: web.Request) -> Scorer:
        from aiohttp import web

        name = request.match_info["name"]
        if name not in self._scorers:
            raise web.HTTPNotFound(text=f"no reward '{name}' is served here; served: {', '.join(self._scorers)}")
        return self._scorers[name]

    async def _json(self, request: web.Request) -> list[Any]:
        try:
            body = await request.json()
            rollouts = body["rollouts"]
            if body["format"] != FORMAT or not isinstance(rollouts, list):
                raise ValueError(f"format {FORMAT} with a list of rollouts is expected")
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"the request is not a batch of rollouts: {error}") from error
        if not 0 < len(rollouts) <= self._max_rollouts:
            raise UsageError(f"{len(rollouts)} rollouts in a request; expected 1 to {self._max_rollouts}")
        return rollouts

    def _rollouts(self, given: list[Any], scorer: Scorer) -> list[Rollout]:
        made = []
        for index, one in enumerate(given):
            if not isinstance(one, dict) or not isinstance(one.get("completion"), (str, list)):
                raise UsageError(f"rollout {index} of the request has no completion (text or messages)")
            columns = dict(one.get("columns") or {})
            prompt = columns.pop("prompts", columns.pop("prompt", ""))
            ids = columns.pop("completion_ids", None) or ()
            columns = {name: value for name, value in columns.items() if name not in REWARD_CONTRACT}
            made.append(Rollout(index, Row(prompt, columns), one["completion"], tuple(ids)))
        return made


async def _scored(session: ScoringSession, rollouts: list[Rollout]) -> tuple[list[Rollout], ScoreTable]:
    return rollouts, await table_of(session)


def _result(table: ScoreTable, index: int) -> dict[str, Any]:
    """One rollout's line: its score or failure, and what was logged of it."""
    name = table.names[0]
    cells = {column.removeprefix(f"{name}/"): values[index] for column, values in table.columns.items()}
    result: dict[str, Any] = {"score": table.scores[index][0]}
    failure = next((failure for failure in table.failures if index in failure.rollouts), None)
    if failure is not None:
        result["failure"] = {"kind": failure.kind, "message": failure.message}
    result |= {column: _plain(value) for column, value in cells.items() if column != "failure" and value is not None}
    if index == 0:  # the batch's metrics travel with its first rollout
        result |= {metric.removeprefix(f"{name}/"): value for metric, value in table.metrics.items()}
    return result


def _plain(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value
