"""Rewards and environments behind others' HTTP protocols, asked as their clients ask. Those clients: tests/bridges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from counting import Counter, broken, same
from plaudit import UsageError
from plaudit.bridges.ors_server import ORSServer
from plaudit.bridges.reward_servers import nemo_gym_app, openrlhf_app
from plaudit.bridges.sessions import EnvironmentSessions
from plaudit.cli import main
from plaudit.scoring.spec import reward_specs
from plaudit.scoring.web import WebLimits


def client_of(app):
    return TestClient(TestServer(app))


def response_of(text):
    return {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]}


def verify_request(text, **row):
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "2+2"}]},
        "response": response_of(text),
        **row,
    }


@pytest.mark.parametrize(
    ("abstain", "query", "expected"),
    [(None, "2+2=4", 1.0), (None, "2+2=5", 0.0), (0.25, "2+2=?", 0.25), (None, "2+2=?", "abstain_score")],
)
async def test_openrlhfs_remote_reward(abstain, query, expected):
    async with client_of(openrlhf_app(reward_specs([same]), WebLimits(), abstain_score=abstain)) as client:
        answer = await client.post("/", json={"query": [query], "prompts": ["2+2="], "labels": ["4"]})
        if isinstance(expected, str):
            assert answer.status == 400
            assert expected in await answer.text()
        else:
            assert (await answer.json())["rewards"] == [expected]


async def test_openrlhf_wants_equal_lists():
    async with client_of(openrlhf_app(reward_specs([same]), WebLimits(), abstain_score=None)) as client:
        answer = await client.post("/same", json={"query": ["a"], "prompts": [], "labels": ["4"]})
        assert (answer.status, "1, 0, 1" in await answer.text()) == (400, True)
        assert (await client.post("/nope", json={"query": [], "prompts": [], "labels": []})).status == 400


async def test_nemo_gym_verifies():
    async with client_of(nemo_gym_app(reward_specs([same]), WebLimits())) as client:
        asked = verify_request("4", answer="4", extra=[1])
        told = await (await client.post("/verify", json=asked)).json()
        assert told == {**asked, "reward": 1.0, "reward_components": {"same": 1.0}}
        wrong = await (await client.post("/verify", json=verify_request("5", verifier_metadata={"answer": "4"}))).json()
        assert wrong["reward"] == 0.0
        assert "mask_sample" not in wrong
        assert (await client.post("/seed_session", json={})).status == 200
        assert (await client.get("/reverify_mode")).status == 200


@pytest.mark.parametrize(("reward", "kind"), [(same, "abstained"), (broken, None)])
async def test_what_nemo_gym_cannot_be_told_is_masked(reward, kind):
    async with client_of(nemo_gym_app(reward_specs([reward]), WebLimits())) as client:
        told = await (await client.post("/verify", json=verify_request("?", answer="4"))).json()
        assert (told["reward"], told["mask_sample"]) == (0.0, True)
        assert told["reward_components"] == {reward.__name__: None}
        assert told["failure_kind"] == kind if kind else told["failure_kind"]
        assert told["failure_reason"].startswith(f"{reward.__name__}: ")


async def test_nemo_gyms_aggregate_leaves_masked_rollouts_out():
    async with client_of(nemo_gym_app(reward_specs([same]), WebLimits())) as client:
        responses = [{"reward": 1.0}, {"reward": 0.0}, {"reward": 0.0, "mask_sample": True}]
        told = await (await client.post("/aggregate_metrics", json={"verify_responses": responses})).json()
        assert told["key_metrics"] == {"mean/reward": 0.5}
        assert told["agent_metrics"]["masked"] == 1


async def test_a_request_without_response_is_answered_with_what_is_wrong():
    async with client_of(nemo_gym_app(reward_specs([same]), WebLimits())) as client:
        answer = await client.post("/verify", json={"answer": "4"})
        assert (answer.status, "no response" in await answer.text()) == (400, True)


def output_of(*items):
    return {"response": {"output": list(items)}, "answer": "4"}


BATCH = {"query": ["ab"], "prompts": ["a"], "labels": ["b"]}


@pytest.mark.parametrize(
    ("app", "path", "body", "says"),
    [
        (openrlhf_app, "/", {**BATCH, "query": [3]}, "query holds 3; expected text"),
        (openrlhf_app, "/", {**BATCH, "prompts": [None]}, "prompts holds None"),
        (openrlhf_app, "/", {"queries": ["a"], "prompts": ["a"], "labels": [""]}, "query is None; expected a list"),
        (openrlhf_app, "/", {**BATCH, "labels": [None]}, "abstain_score"),
        (openrlhf_app, "/", [1], "expected a JSON object"),
        (nemo_gym_app, "/verify", output_of("x"), "response.output holds 'x'"),
        (nemo_gym_app, "/verify", output_of({"type": "message", "content": 4}), "content holds 4"),
        (nemo_gym_app, "/verify", {**output_of(), "responses_create_params": "x"}, "responses_create_params is 'x'"),
        (nemo_gym_app, "/aggregate_metrics", {}, "needs verify_responses"),
        (nemo_gym_app, "/aggregate_metrics", {"verify_responses": [3]}, "verify_responses holds 3"),
        (nemo_gym_app, "/aggregate_metrics", {"verify_responses": [{"reward": "x"}]}, "reward is 'x'"),
    ],
)
async def test_a_wrong_request_is_a_400_that_names_what_is_wrong(app, path, body, says):
    more = {"abstain_score": None} if app is openrlhf_app else {}
    async with client_of(app(reward_specs([same]), WebLimits(), **more)) as client:
        answer = await client.post(path, json=body)
        assert (answer.status, says in await answer.text()) == (400, True)


async def test_a_reward_that_failed_is_a_500():
    async with client_of(openrlhf_app(reward_specs([broken]), WebLimits(), abstain_score=None)) as client:
        answer = await client.post("/", json=BATCH)
        assert (answer.status, "RuntimeError" in await answer.text()) == (500, True)


def events_of(text):
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return {block[0].removeprefix("event: "): block[1].removeprefix("data: ") for block in blocks}


async def call(client, name, arguments, sid="s"):
    told = await client.post("/counter/call", json={"name": name, "input": arguments}, headers={"X-Session-ID": sid})
    return json.loads(events_of(await told.text())["end"])


def ors(tasks=({"goal": 3}, {"goal": 5, "prompt": "Go."})):
    return client_of(ORSServer(EnvironmentSessions(Counter), tasks).app(WebLimits()))


async def test_an_episode_over_ors():
    alive = Counter.alive
    async with ors() as client:
        assert await (await client.get("/list_environments")).json() == ["counter"]
        tools = await (await client.get("/counter/tools")).json()
        assert [tool["name"] for tool in tools["tools"]] == ["add", "look"]
        assert tools["tools"][0]["input_schema"]["properties"]["number"]["type"] == "integer"
        count = await (await client.post("/counter/num_tasks", json={"split": "train"})).json()
        assert count == {"num_tasks": 2}
        session = {"X-Session-ID": "s"}
        await client.post("/create", json={"split": "train", "index": 1}, headers=session)
        prompt = await (await client.get("/counter/prompt", headers=session)).json()
        assert prompt[0]["text"] == "Go.\n\ncount to 5"
        assert (await call(client, "add", {"number": 2}))["output"]["blocks"][0]["text"] == "2"
        assert (await call(client, "add", {"number": 3}))["output"]["reward"] is None
        assert (await call(client, "look", {}))["output"]["blocks"][0]["text"] == "it is 5"
        ended = await call(client, tools["terminal_tool"]["name"], {"answer": "done"})
        assert (ended["output"]["reward"], ended["output"]["finished"]) == (1.0, True)
        assert (await call(client, "add", {"number": 1}))["reason"] == "episode_finished"
        await client.post("/delete", headers=session)
        assert (await client.get("/counter/prompt", headers=session)).status == 404
    assert Counter.alive == alive


@pytest.mark.parametrize(
    ("name", "arguments", "reason", "says"),
    [
        ("fly", {}, "not_found", "no tool 'fly'"),
        ("add", {"amount": 1}, "input_validation", "'number'"),
        ("add", {"number": 101}, "input_validation", "too much at once"),
        ("reset", {"goal": 1}, "not_found", "no tool"),
    ],
)
async def test_a_bad_call_over_ors_is_an_answer(name, arguments, reason, says):
    async with ors() as client:
        await client.post("/create", json={"task_spec": {"goal": 3}}, headers={"X-Session-ID": "s"})
        told = await call(client, name, arguments)
        assert (told["ok"], told["reason"], says in told["error"]) == (False, reason, True)


async def test_what_ors_cannot_create_is_said():
    async with ors() as client:
        session = {"X-Session-ID": "s"}
        bad = [{"split": "train", "index": 9}, {"task_spec": {"level": 1}}, {"env_name": "chess", "task_spec": {}}]
        answers = [await client.post("/create", json=body, headers=session) for body in bad]
        assert [answer.status for answer in answers] == [400, 400, 400]
        assert "no task 9" in await answers[0].text()
        assert "'goal'" in await answers[1].text()
        assert (await client.post("/create", json={"split": "train", "index": 0})).status == 400


async def test_a_session_that_nobody_uses_is_closed():
    sessions = EnvironmentSessions(Counter, idle_s=0.0)
    await sessions.create("s", {"goal": 1})
    await sessions.sweep()
    assert len(sessions) == 0
    await sessions.close()


def test_an_environment_without_tasks_is_refused():
    with pytest.raises(UsageError, match="no tasks"):
        ORSServer(EnvironmentSessions(Counter), [])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("serve a b --protocol ors", "serves one environment"),
        ("serve ./counting.py:same --protocol openrlhf --data x.jsonl", "--data is for environments"),
        ("serve ./counting.py:Counter --protocol ors --data nothing.jsonl", "nothing.jsonl"),
    ],
)
def test_wrong_command_lines_are_refused(line, says, capsys, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)
    assert main(line.split()) == 2
    assert says in capsys.readouterr().err
