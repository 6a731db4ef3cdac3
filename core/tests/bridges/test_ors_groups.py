"""A group that an ORS server compares: ours behind its routes, and our client at them, in a training."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.test_utils import TestClient, TestServer
from counting import Counter
from plaudit import UsageError, Verdict, load_environment
from plaudit.bridges.http import JSONClient, ServerError
from plaudit.bridges.ors_server import ORSServer
from plaudit.bridges.sessions import EnvironmentSessions
from plaudit.plugins.loading import load_plugin
from plaudit.scoring.web import WebLimits
from scripted import call, make_trainer, turns_of
from serving import served


class Race(Counter):
    """Who counts furthest wins; the answer must be honest."""

    def get_reward(self, completion: str) -> float:
        return float(completion == f"it is {self.count}")

    @classmethod
    async def score_group(cls, environments, completions):
        if any(text == "judge, break" for text in completions):
            raise RuntimeError("the judge is out")
        best = max(one.count for one in environments)
        return [Verdict(float(one.count == best), metrics={"count": one.count}) for one in environments]


def app_of(environment=Race):
    return ORSServer(EnvironmentSessions(environment), [{"goal": 3}, {"goal": 5}]).app(WebLimits())


@pytest.fixture
def url():
    with served(app_of()) as address:
        yield address


def play(folder, url, say, **options):
    rows = load_plugin("dataset", "ors", options={"url": url})(split="train")
    factory = load_environment("ors", options={"url": url, **options})
    trainer = make_trainer(folder, say, rows=rows, environment_factory=factory)
    trainer.train()
    return trainer.state.log_history[0]


def count_to_place(text, index):
    """Rollout n of a group adds n and says so; the last one lies."""
    return call("add", number=index % 4) if not turns_of(text) else f"it is {index % 4 if index % 4 < 3 else 9}"


@pytest.mark.parametrize(("weight", "mean"), [(1.0, 1.0), (2.0, 1.25), (0.0, 0.75)])
def test_the_comparison_stands_beside_the_sessions_rewards(tmp_path, url, weight, mean):
    log = play(tmp_path, url, count_to_place, group_weight=weight)
    assert log["rewards/race/mean"] == mean
    if weight:
        assert (log["race/group"], log["race/alone"]) == (0.25, 0.75)


def test_a_judge_that_breaks_abstains(tmp_path, url, caplog):
    log = play(tmp_path, url, lambda text, index: "judge, break")
    assert log.get("rewards/race/mean") is None
    assert "the judge is out" in caplog.text


async def asked(client, body, sid="a"):
    answer = await client.post("/race/score_group", json=body, headers={"X-Session-ID": sid})
    return answer.status, await answer.text()


def candidate(sid, text="x"):
    return {"messages": [{"role": "assistant", "blocks": [{"type": "text", "text": text}]}], "metadata": {"sid": sid}}


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"candidates": [candidate("a"), candidate("b")]}, 200, '"reward": 1.0'),
        ({}, 400, "candidates is None; expected a list"),
        ({"candidates": []}, 400, "expected a list"),
        ({"candidates": [{"messages": [], "metadata": None}]}, 400, "candidate 0 has no metadata.sid"),
        ({"candidates": [candidate("a"), 3]}, 400, "candidate 1 has no metadata.sid"),
        ({"candidates": [{"messages": "x", "metadata": {"sid": "a"}}]}, 400, "candidate 0: messages is 'x'"),
        ({"candidates": [candidate("gone")]}, 200, "event: error\ndata: there is no session 'gone'"),
        ({"candidates": [candidate("a", "judge, break")]}, 200, "event: error\ndata: score_group failed: RuntimeError"),
    ],
)
async def test_what_a_comparison_is_answered(body, status, says):
    async with TestClient(TestServer(app_of())) as client:
        for sid in "ab":
            await client.post("/create", json={"index": 0}, headers={"X-Session-ID": sid})
        assert (await client.get("/race/tools")).status == 200
        found = await asked(client, body)
        assert found[0] == status
        assert says in found[1]


async def test_an_environment_that_compares_nothing_says_so():
    async with TestClient(TestServer(app_of(Counter))) as client:
        await client.post("/create", json={"index": 0}, headers={"X-Session-ID": "a"})
        assert (await (await client.get("/tools")).json())["supports_score_group"] is False
        answer = await client.post("/counter/score_group", json={}, headers={"X-Session-ID": "a"})
        assert answer.status == 404


async def test_a_call_is_not_made_twice_for_a_connection_that_broke():
    async with TestClient(TestServer(app_of())) as client:
        headers = {"X-Session-ID": "a"}
        await client.post("/create", json={"index": 0}, headers=headers)
        body = {"name": "add", "input": {"number": 2}}
        first = await (await client.post("/race/call", json=body, headers=headers)).text()
        task_id = first.split("data: ")[1].split("\n")[0]
        again = await (await client.post("/race/call", json={**body, "task_id": task_id}, headers=headers)).text()
        assert again == first
        more = await (await client.post("/race/call", json={"name": "look"}, headers=headers)).text()
        assert "it is 2" in more


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/task_range", {"split": "train", "start": "0"}, "start is '0'; expected a whole number"),
        ("/task", {"split": "train", "index": True}, "no task True"),
        ("/tasks", {"split": "test"}, "no split 'test'"),
    ],
)
async def test_what_a_request_has_wrong_is_said(path, body, says):
    async with TestClient(TestServer(app_of())) as client:
        answer = await client.post(path, json=body)
        assert (answer.status, says in await answer.text()) == (400, True)


class Broken(Counter):
    def get_reward(self) -> float:
        raise RuntimeError("no scale")


class Word(Counter):
    def get_reward(self):
        return "good"


@pytest.mark.parametrize(("environment", "says"), [(Broken, "no scale"), (Word, "expected a float")])
def test_a_reward_that_fails_is_an_error(environment, says):
    async def episode(url):
        one = load_environment("ors", options={"url": url})()
        try:
            await one.reset(task_index=0)
            await one.get_reward("done")
        finally:
            await one.close()

    with served(app_of(environment)) as url, pytest.raises(ServerError, match=says):
        asyncio.run(episode(url))


class Talks(Counter):
    def answer_turn(self, message):
        return None


def test_an_environment_that_answers_turns_is_refused():
    with pytest.raises(UsageError, match="answers turns itself"):
        EnvironmentSessions(Talks)


def test_a_split_that_is_not_there(url):
    with pytest.raises(UsageError, match="race has no split 'dev'; it has train"):
        load_plugin("dataset", "ors", options={"url": url})(split="dev")


@pytest.mark.parametrize(("url", "timeout", "says"), [("localhost:80", 1, "expected http"), ("http://a", 0, "than 0")])
def test_an_address_that_is_none(url, timeout, says):
    with pytest.raises(UsageError, match=says):
        JSONClient(url, timeout)
