"""Servers that are down, slow, or answer what no protocol knows: named, and nothing taken for a score."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import WSMsgType, web
from plaudit import load_environment, load_verifier
from plaudit.bridges.http import ServerError
from plaudit.errors import PlauditError
from plaudit.plugins.loading import load_plugin
from serving import served

SCHEMA = {"action": {"properties": {"number": {"type": "integer"}}, "required": ["number"]}}


def answering(routes):
    """An application whose routes answer with these bodies."""
    app = web.Application()
    for path, body in routes.items():

        async def answer(request, body=body):
            return web.Response(text=body if isinstance(body, str) else json.dumps(body))

        app.router.add_route("*", path, answer)
    return app


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("<html>", r"answered '<html>'; expected JSON"), ("", "answered 'nothing'; expected JSON"),
        ([1], r"answered \[1\]; expected an object with a reward"), ({}, "reward = None; expected a finite number"),
        ({"reward": "1"}, "reward = '1'"), ({"reward": True}, "reward = True"), ('{"reward": NaN}', "reward = nan"),
        ({"reward": 1, "reward_components": [1]}, "expected 'reward_components' in it, an object"),
        ({"reward": 1, "reward_components": {"a": "b"}}, "reward_components.a = 'b'"),
    ],
)  # fmt: skip
def test_what_nemo_gym_answers_is_a_number_or_an_error(told, says):
    with served(answering({"/verify": told})) as url:
        judge = load_verifier("nemo_gym", options={"url": url})
        with pytest.raises(ServerError, match=f"/verify .*{says}"):
            asyncio.run(judge("4", "4"))


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("nemo_gym", {"url": "localhost:1"}, "url is 'localhost:1'; expected http://host:port"),
        ("nemo_gym", {"url": "http://a", "timeout_s": 0}, "timeout_s is 0; expected more than 0"),
        ("nemo_gym", {"adress": "x"}, "adress"), ("verl", {"function": "json:no_such"}, "no_such"),
        ("verl", {"function": "json:__name__"}, "expected a function"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(name, options, says):
    with pytest.raises(PlauditError, match=says):
        load_verifier(name, options=options)


ORS = {"/list_environments": ["play"], "/play/splits": ["train"], "/play/tools": {"tools": []}}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"/list_environments": {}}, r"/list_environments answered {}; expected a list"),
        ({"/list_environments": []}, "has no environments"),
        ({"/play/tools": {"tools": [{"nome": "a"}]}}, "expected 'name' in it, text"),
        ({"/play/tools": {"tools": [{"name": "get-it"}]}}, "a tool called 'get-it' cannot be offered"),
        ({"/play/tools": "oh"}, "/play/tools answered 'oh'; expected JSON"),
    ],
)
def test_an_ors_server_that_is_none(more, says):
    with served(answering(ORS | more)) as url, pytest.raises(PlauditError, match=says):
        load_environment("ors", options={"url": url})()


@pytest.mark.parametrize(
    ("count", "options", "says"),
    [({"num_tasks": 0}, {}, "has 0 tasks"), ({}, {}, "'num_tasks' in it"), ({"num_tasks": 3}, {"limit": 0}, "no row")],
)
def test_tasks_that_are_not_there(count, options, says):
    with (
        served(answering(ORS | {"/play/num_tasks": count})) as url,
        pytest.raises(PlauditError, match=says),
    ):
        load_plugin("dataset", "ors", options={"url": url, **options})()


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("event: end\ndata: {}\n\n", "failed"), ("event: end\ndata: oops\n\n", "ended with 'oops'; expected an object"),
        ("event: error\ndata: no more\n\n", "no more"), ("", "ended with ''"),
        ('event: end\ndata: {"ok": true}\n\n', "'output' in it"),
        ('event: end\ndata: {"ok": true, "output": {"blocks": [], "reward": "1"}}\n\n', "reward = '1'"),
        ('event: end\ndata: {"ok": true, "output": {"blocks": "x"}}\n\n', "expected a list of blocks"),
    ],
)  # fmt: skip
def test_calls_that_end_otherwise(told, says):
    tools = {"tools": [{"name": "go", "description": "Go.", "input_schema": None}]}
    routes = {"/play/tools": tools, "/create": {}, "/delete": {}, "/play/prompt": [{"text": "go"}], "/play/call": told}

    async def episode(url):
        one = load_environment("ors", options={"url": url})()
        try:
            assert await one.reset(task_index=0) == "go"
            await one.go()
        finally:
            await one.close()

    with served(answering(ORS | routes)) as url, pytest.raises(ServerError, match=says):
        asyncio.run(episode(url))


def speaking(*messages):
    """An OpenEnv server that answers each message with the next of these; None = it hangs, "" = it hangs up."""
    app = answering({"/schema": SCHEMA})

    async def talk(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        told = iter(messages)
        async for heard in socket:
            if heard.type is WSMsgType.TEXT and json.loads(heard.data)["type"] == "close":
                break
            answer = next(told)
            if answer == "":
                break
            if answer is not None:
                await socket.send_str(answer if isinstance(answer, str) else json.dumps(answer))
        await socket.close()
        return socket

    app.router.add_get("/ws", talk)
    return app


def seen(text="go", **more):
    return {"type": "observation", "data": {"observation": {"text": text}, **more}}


@pytest.mark.parametrize(
    ("answers", "error", "says"),
    [
        (["<html>"], ServerError, "answered '<html>' on reset; expected JSON"),
        ([{"type": "error", "data": {"message": "no such task"}}], ServerError, "no such task"),
        ([{"type": "x"}], ServerError, "expected 'data' in it, an object"),
        ([[1]], ServerError, "expected 'data' in it"),
        ([{"data": {}}], ServerError, "expected 'observation' in it, an object"),
        ([""], ServerError, "closed the connection on reset"),
        ([seen(), ""], ServerError, "closed the connection on step"),
        ([seen(), seen(reward="1")], ServerError, "reward = '1'; expected a finite number"),
        ([seen(), None], TimeoutError, "step at .* was not answered within 2.5 s"),
        ([seen(), seen(done=True), seen()], ServerError, "the episode has ended"),
    ],
)
def test_an_openenv_server_that_answers_otherwise(answers, error, says):
    async def episode(url):
        one = load_environment("openenv", options={"url": url, "timeout_s": 2.5})()
        try:
            await one.reset()
            for _ in answers:
                await one.step(number=1)
        finally:
            await one.close()

    with served(speaking(*answers)) as url, pytest.raises(error, match=says):
        asyncio.run(episode(url))


def test_a_late_answer_is_not_the_next_ones():
    async def episode(url):
        one = load_environment("openenv", options={"url": url, "timeout_s": 2.5})()
        await one.reset()
        with pytest.raises(TimeoutError):
            await one.step(number=1)
        with pytest.raises(ServerError, match="closed the connection; the episode is lost"):
            await one.step(number=1)
        found = await one.reset(), one.get_reward()
        await one.close()
        return found

    with served(speaking(seen(), None)) as url:
        assert asyncio.run(episode(url)) == ("go", None)


def test_closing_one_instance_leaves_the_others_alone():
    async def episodes(url):
        made = load_environment("openenv", options={"url": url, "timeout_s": 2})
        one, other = made(), made()
        await one.reset()
        await other.reset()
        await one.close()
        said = await other.step(number=1)
        await other.close()
        return said

    with served(speaking(seen(), seen("still here"))) as url:
        assert asyncio.run(episodes(url)) == "still here"


def test_instances_are_closed_at_one_time():
    deleted = []

    async def delete(request):
        await asyncio.sleep(0.2)
        deleted.append(request.headers["X-Session-ID"])
        return web.json_response({})

    app = answering(ORS | {"/create": {}, "/play/prompt": [{"text": "go"}]})
    app.router.add_post("/delete", delete)

    async def episodes(url):
        made = load_environment("ors", options={"url": url, "timeout_s": 3})
        group = [made() for _ in range(3)]
        await asyncio.gather(*(one.reset(task_index=0) for one in group))
        closings = []
        for one in group:
            closings.append(asyncio.ensure_future(one.close()))
            await asyncio.sleep(0.05)
        await asyncio.gather(*closings)

    with served(app) as url:
        asyncio.run(episodes(url))
    assert len(set(deleted)) == 3


def test_openenv_rewards_add_up():
    async def episode(url):
        one = load_environment("openenv", options={"url": url})()
        said = [await one.reset(), await one.step(number=1), await one.step(number=2)]
        await one.close()
        return said, one.get_reward()

    with served(speaking(seen(), seen("warm", reward=0.25), seen("hot", reward=1, done=True))) as url:
        assert asyncio.run(episode(url)) == (["go", "warm", "hot"], 1.25)


def test_a_server_that_does_not_answer_in_time():
    async def never(request):
        await asyncio.sleep(30)

    app = answering({})
    app.router.add_post("/verify", never)
    with served(app) as url, pytest.raises(TimeoutError, match=r"/verify did not answer within 0.3 s"):
        asyncio.run(load_verifier("nemo_gym", options={"url": url, "timeout_s": 0.3})("4", "4"))
