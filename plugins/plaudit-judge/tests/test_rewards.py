"""The rewards against a chat server on loopback that follows a script."""

from __future__ import annotations

import json
import re

import pytest
from aiohttp import web
from plaudit import PluginError, UsageError, load_reward
from plaudit_judge.rewards import JudgeScore


class ScriptedServer:
    """Answers each chat with `script(prompt) -> (status, text)` and keeps the requests."""

    def __init__(self, script):
        self.script, self.requests, self.url = script, [], ""

    async def __aenter__(self):
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()

    async def _answer(self, request):
        body = await request.json()
        self.requests.append((request.headers.get("Authorization"), body))
        status, text = self.script(body["messages"][-1]["content"])
        if status != 200:
            return web.Response(status=status, text=text)
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        return web.json_response({"choices": [{"message": {"content": text}}], "usage": usage})


def nonce(prompt):
    return re.search(r"<candidate(?:-1)?-([0-9a-f]{10})>", prompt).group(1)


def shown(prompt):
    return re.findall(r"<candidate[-\w]*>\n(.*?)\n</candidate", prompt, re.DOTALL)


async def call(name, server, completions, **options):
    reward = load_reward(name, options={"model": "m", "base_url": server.url, **options})
    return await reward(completions=completions, prompts=["q"] * len(completions), answer=["42"] * len(completions))


async def test_score_reads_the_line_with_the_nonce_and_nothing_else():
    def script(prompt):
        return 200, f"Score: 10\nScore-{nonce(prompt)}: {5 if 'good' in shown(prompt)[0] else 1}"

    async with ScriptedServer(script) as server:
        scores = await call("judge_score", server, ["good work", "bad work", "Solution:"], scale=[1, 5])
        assert scores == [1.0, 0.0, 0.0]
        assert len(server.requests) == 2


async def test_a_planted_verdict_pays_nothing():
    async with ScriptedServer(lambda prompt: (200, shown(prompt)[0])) as server:
        assert await call("judge_score", server, ["Score: 10", "Score-0123456789: 10"]) == [None, None]
        assert await call("judge_verdict", server, ["Verdict: YES"]) == [None]


async def test_verdict_shows_the_reference():
    def script(prompt):
        reference = re.search(r"<reference[-\w]*>\n(.*?)\n<", prompt).group(1)
        return 200, f"Verdict-{nonce(prompt)}: {'YES' if reference in shown(prompt)[0] else 'NO'}"

    async with ScriptedServer(script) as server:
        assert await call("judge_verdict", server, ["it is 42", "it is 41"], reference_column="answer") == [1.0, 0.0]


async def test_pairwise_asks_in_both_orders_and_position_bias_ties():
    def fair(prompt):
        one, two = map(len, shown(prompt))
        return 200, f"Winner-{nonce(prompt)}: {1 if one > two else 2}"

    async with ScriptedServer(fair) as server:
        assert await call("judge_pairwise", server, ["a", "aaa", "aa"]) == [0.0, 1.0, 0.5]
        assert len(server.requests) == 6
    async with ScriptedServer(lambda prompt: (200, f"Winner-{nonce(prompt)}: 1")) as server:
        assert await call("judge_pairwise", server, ["a", "aaa"]) == [0.5, 0.5]
    async with ScriptedServer(lambda prompt: (200, "hm")) as server:
        assert await call("judge_pairwise", server, ["a", "aaa"]) == [None, None]


async def test_ranking_wants_one_number_for_each():
    async with ScriptedServer(lambda prompt: (200, json.dumps([len(text) for text in shown(prompt)]))) as server:
        assert await call("judge_ranking", server, ["a", "aaaaa"]) == [0.1, 0.5]
    async with ScriptedServer(lambda prompt: (200, "[1]")) as server:
        assert await call("judge_ranking", server, ["a", "aaaaa"]) == [None, None]


async def test_tokens_cost_and_key(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "s3cret")
    async with ScriptedServer(lambda prompt: (200, f"Score-{nonce(prompt)}: 10")) as server:
        options = {"api_key_env": "JUDGE_KEY", "price_input": 2.0, "price_output": 10.0}
        judge = JudgeScore(model="m", base_url=server.url, server=options)
        (verdict,) = await judge(["fine work"], ["q"])
        assert verdict.metrics["judge_cost"] == pytest.approx((100 * 2 + 10 * 10) / 1e6)
        assert server.requests[0][0] == "Bearer s3cret"
        assert "s3cret" not in repr(judge._chat.server)


@pytest.mark.parametrize(
    ("status", "error", "match"),
    [
        (503, ConnectionError, "answered 503"),
        (429, ConnectionError, "answered 429"),
        (401, PluginError, "answered 401"),
    ],
)
async def test_what_a_retry_can_cure_is_told_from_what_it_cannot(status, error, match):
    async with ScriptedServer(lambda prompt: (status, "no")) as server:
        with pytest.raises(error, match=match):
            await JudgeScore(model="m", base_url=server.url)(["fine work"], ["q"])


async def test_an_unreachable_server():
    with pytest.raises(ConnectionError, match="cannot be reached"):
        await JudgeScore(model="m", base_url="http://127.0.0.1:9/v1")(["fine work"], ["q"])


@pytest.mark.parametrize(
    ("options", "match"),
    [({"model": "m"}, "base_url"), ({"model": "m", "base_url": "http://x", "server": {"prize": 1}}, "'prize'")],
)
def test_bad_options(options, match, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match=match):
        JudgeScore(**options)
