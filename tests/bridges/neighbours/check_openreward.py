"""openreward 0.1: its client at our server, and our client at its server."""

import asyncio

import pytest
from counter import Counter
from openreward import AsyncOpenReward, GroupCandidate, Message
from openreward.environments import Environment, Server, TextBlock, ToolOutput, terminal, tool
from plaudit import load_environment
from plaudit.bridges.http import ServerError
from plaudit.bridges.ors_server import ORSServer
from plaudit.bridges.sessions import EnvironmentSessions
from plaudit.plugins.loading import load_plugin
from plaudit.scoring.web import WebLimits
from pydantic import BaseModel
from serving import served
from serving_asgi import served_asgi


def test_its_client_plays_an_episode_at_our_server():
    async def play(url):
        client = AsyncOpenReward(api_key="none", base_url=url)
        environment = client.environments.get(name="counter", base_url=url)
        tasks = await environment.list_tasks("train")
        tools = await environment.list_tools()
        async with environment.session(tasks[1]) as session:
            prompt = await session.get_prompt()
            said = await session.call_tool("add", {"number": 3})
            end = await session.call_terminal_tool("done")
        return len(tasks), [one.name for one in tools], prompt[0].text, said.blocks[0].text, end.reward, end.finished

    app = ORSServer(EnvironmentSessions(Counter), [{"goal": 5}, {"goal": 3}]).app(WebLimits())
    with served(app) as url:
        assert asyncio.run(play(url)) == (2, ["add"], "count to 3", "3", 1.0, True)


class Number(BaseModel):
    number: int


class Answer(BaseModel):
    answer: str


class Adder(Environment):
    def setup(self):
        self.count = 0

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"goal": 3}, {"goal": 5}]

    def get_prompt(self):
        return [TextBlock(text=f"add up to {self.task_spec['goal']}")]

    @tool
    async def add(self, args: Number) -> ToolOutput:
        """Add to the count."""
        self.count += args.number
        return ToolOutput(blocks=[TextBlock(text=str(self.count))])

    @terminal
    @tool
    async def submit(self, args: Answer) -> ToolOutput:
        """Hand the answer in."""
        right = self.count == self.task_spec["goal"] and args.answer == "done"
        return ToolOutput(blocks=[], reward=float(right), finished=True)


def test_our_client_plays_episodes_at_its_server():
    async def play(url, answer):
        environment = load_environment("ors", options={"url": url})()
        said = [await environment.reset(task_index=1), await environment.add(number=5)]
        found = await environment.get_reward(answer)
        await environment.close()
        return said, found

    with served_asgi(Server([Adder]).app) as url:
        rows = load_plugin("dataset", "ors", options={"url": url})(split="train")
        assert [row["task_index"] for row in rows] == [0, 1]
        assert asyncio.run(play(url, "done")) == (["add up to 5", "5"], 1.0)


class Contest(Adder):
    async def score_group(self, candidates):
        texts = ["".join(block.text for one in candidate.messages for block in one.blocks) for candidate in candidates]
        if "spoil" in texts:
            raise RuntimeError("the judge is out")
        return [float(len(text) == max(map(len, texts))) for text in texts]


@pytest.fixture
def streams():
    """Streams of servers that come after one that has ended: the library remembers that one for the whole process."""
    from sse_starlette.sse import AppStatus

    AppStatus.should_exit, AppStatus.should_exit_event = False, None


def test_its_server_compares_our_group(streams):
    async def play(url, *answers):
        made = load_environment("ors", options={"url": url})
        group = [made() for _ in answers]
        for one in group:
            await one.reset(task_index=0)
        await group[0].add(number=3)
        try:
            return await type(group[0]).score_group(group, list(answers))
        finally:
            await asyncio.gather(*(one.close() for one in group))

    with served_asgi(Server([Contest]).app) as url:
        found = asyncio.run(play(url, "done", "longer answer"))
        assert [(one.score, one.metrics) for one in found] == [
            (1.0, {"group": 0.0, "alone": 1.0}),
            (1.0, {"group": 1.0, "alone": 0.0}),
        ]
        with pytest.raises(ServerError, match="the judge is out"):
            asyncio.run(play(url, "spoil", "other"))


class Furthest(Counter):
    @classmethod
    def score_group(cls, environments, completions):
        return [float(one.count == max(other.count for other in environments)) for one in environments]


def test_our_server_compares_its_clients_group():
    async def play(url):
        client = AsyncOpenReward(api_key="none", base_url=url)
        environment = client.environments.get(name="furthest", base_url=url)
        task = (await environment.list_tasks("train"))[0]
        async with environment.session(task) as one, environment.session(task) as other:
            await one.call_tool("add", {"number": 1})
            await other.call_tool("add", {"number": 2})
            candidates = [
                GroupCandidate([Message(role="assistant", blocks=[TextBlock(text="x")])], {"sid": session.sid})
                for session in (one, other)
            ]
            return await one.supports_score_group(), await one.score_group(candidates)

    app = ORSServer(EnvironmentSessions(Furthest), [{"goal": 5}]).app(WebLimits())
    with served(app) as url:
        supported, scores = asyncio.run(play(url))
    assert (supported, [one.reward for one in scores]) == (True, [0.0, 1.0])
