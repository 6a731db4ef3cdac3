"""Rewards behind the HTTP protocols of other trainers: OpenRLHF's remote reward and NeMo-Gym's `/verify`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plaudit.errors import UsageError
from plaudit.scoring.spec import RewardSpec
from plaudit.scoring.web import WebLimits, json_object, web_app

from .openrlhf import answer, asked_of
from .standalone import Failed, Judged, StandaloneReward

if TYPE_CHECKING:
    from aiohttp import web

NOT_COLUMNS = ("responses_create_params", "response", "agent_ref")


def openrlhf_app(specs: Sequence[RewardSpec], limits: WebLimits, *, abstain_score: float | None) -> web.Application:
    """POST {query, prompts, labels} to / (the first reward) or /NAME; answers {rewards, scores, extra_logs}.

    400: the request is wrong, or a reward abstains and there is no abstain_score. 500: a reward failed.
    """
    from aiohttp import web

    rewards = _rewards(specs)

    async def score(request: web.Request) -> web.Response:
        function = _chosen(request, rewards)
        body = await json_object(request)
        asked = asked_of({name: body.get(name) for name in ("query", "prompts", "labels")})
        found = await asyncio.gather(*(function.judge(one.completion, one.columns, prompt=one.prompt) for one in asked))
        try:
            return web.json_response(answer(function, found, abstain_score))
        except Failed as error:
            raise web.HTTPInternalServerError(text=str(error)) from error

    app = _app(limits, rewards)
    app.router.add_post("/", score)
    app.router.add_post("/{name}", score)
    return app


def nemo_gym_app(specs: Sequence[RewardSpec], limits: WebLimits) -> web.Application:
    """NeMo-Gym's resources server: /verify, /seed_session, /close_session, /aggregate_metrics, /reverify_mode.

    Several rewards: their weighted sum is `reward`, each under its name in `reward_components`. A rollout that a reward
    cannot score is masked (`mask_sample`), with the reason; its reward of 0 is then not learnt from.
    """
    from aiohttp import web

    rewards = _rewards(specs)
    weights = {spec.name: _weight(spec) for spec in specs}

    async def verify(request: web.Request) -> web.Response:
        body = await json_object(request)
        completion, prompt = response_text(body), prompt_of(body)
        columns = {name: value for name, value in body.items() if name not in NOT_COLUMNS}
        columns |= {name: value for name, value in _nested(columns).items() if name not in columns}
        names = list(rewards)
        judged = await asyncio.gather(*(rewards[name].judge(completion, columns, prompt=prompt) for name in names))
        return web.json_response({**body, **_verdict(dict(zip(names, judged, strict=True)), weights)})

    async def nothing(request: web.Request) -> web.Response:
        return web.json_response({})

    async def aggregate(request: web.Request) -> web.Response:
        body = await json_object(request)
        responses = body.get("verify_responses")
        if not isinstance(responses, list):
            raise UsageError("aggregate_metrics needs verify_responses, a list")
        return web.json_response(aggregate_metrics(responses))

    async def mode(request: web.Request) -> web.Response:
        return web.json_response({"reverify_mode": "stateless"})

    app = _app(limits, rewards)
    app.router.add_post("/verify", verify)
    app.router.add_post("/seed_session", nothing)
    app.router.add_post("/close_session", nothing)
    app.router.add_post("/aggregate_metrics", aggregate)
    app.router.add_get("/reverify_mode", mode)
    return app


def response_text(body: Mapping[str, Any]) -> str:
    """The text of the assistant messages of an OpenAI response. Raises UsageError when there is no response."""
    response = body.get("response")
    if not isinstance(response, Mapping) or not isinstance(response.get("output"), list):
        raise UsageError("the request has no response with an output list, as the OpenAI Responses API gives it")
    texts = [
        part.get("text") or ""
        for item in _mappings(response["output"], "response.output")
        if item.get("type") == "message" and item.get("role", "assistant") == "assistant"
        for part in _parts(item.get("content"))
    ]
    return "".join(texts)


def prompt_of(body: Mapping[str, Any]) -> Any:
    """The input of the request: text, or messages. Raises UsageError where it stands in no object."""
    asked = body.get("responses_create_params") or {}
    if not isinstance(asked, Mapping):
        raise UsageError(f"responses_create_params is {asked!r:.60}; expected an object")
    return asked.get("input") or ""


def aggregate_metrics(responses: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean reward over the responses that are not masked, and how many those are.

    Raises UsageError on a response without a number for its reward.
    """
    kept = [_reward(one) for one in _mappings(responses, "verify_responses") if not one.get("mask_sample")]
    metrics = {"mean/reward": sum(kept) / len(kept)} if kept else {}
    return {
        "agent_metrics": {**metrics, "count": len(responses), "masked": len(responses) - len(kept)},
        "key_metrics": metrics,
        "group_level_metrics": [],
    }


def _verdict(judged: Mapping[str, Judged], weights: Mapping[str, float]) -> dict[str, Any]:
    missing = {name: one for name, one in judged.items() if one.score is None}
    found: dict[str, Any] = {
        "reward": sum(weights[name] * one.score for name, one in judged.items() if one.score is not None),
        "reward_components": {name: one.score for name, one in judged.items()},
    }
    if missing:
        name, first = next(iter(missing.items()))
        found |= {
            "reward": 0.0,
            "mask_sample": True,
            "failure_kind": first.failure_kind or "abstained",
            "failure_reason": f"{name}: {first.failure or first.reason or 'it abstained'}",
        }
    return found


def _nested(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of the metadata that a row may carry them in."""
    found = columns.get("verifier_metadata")
    return dict(found) if isinstance(found, Mapping) else {}


def _parts(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"text": content}]
    return _mappings(content or [], "a message's content")


def _mappings(found: Any, what: str) -> list[Mapping[str, Any]]:
    wrong = [one for one in found if not isinstance(one, Mapping)] if isinstance(found, (list, tuple)) else [found]
    if wrong:
        raise UsageError(f"{what} holds {wrong[0]!r:.60}; expected a list of objects")
    return list(found)


def _reward(response: Mapping[str, Any]) -> float:
    found = response.get("reward")
    if not isinstance(found, (int, float)):
        raise UsageError(f"a response's reward is {found!r:.60}; expected a number, or mask_sample")
    return float(found)


def _weight(spec: RewardSpec) -> float:
    if not isinstance(spec.weight, (int, float)):
        raise UsageError(f"reward '{spec.name}' has a weight schedule, which a server cannot follow")
    return float(spec.weight)


def _rewards(specs: Sequence[RewardSpec]) -> dict[str, StandaloneReward]:
    found = {spec.name: StandaloneReward(spec) for spec in specs}
    for function in found.values():
        function.check_alone()
    return found


def _chosen(request: web.Request, rewards: Mapping[str, StandaloneReward]) -> StandaloneReward:
    name = request.match_info.get("name") or next(iter(rewards))
    if name not in rewards:
        raise UsageError(f"no reward '{name}' is served here; served: {', '.join(rewards)}")
    return rewards[name]


def _app(limits: WebLimits, rewards: Mapping[str, StandaloneReward]) -> web.Application:
    from aiohttp import web

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "rewards": list(rewards)})

    async def life(_: web.Application) -> AsyncIterator[None]:
        yield
        for function in rewards.values():
            await asyncio.to_thread(function.close)

    app = web_app(limits)
    app.router.add_get("/health", health)
    app.cleanup_ctx.append(life)
    return app
