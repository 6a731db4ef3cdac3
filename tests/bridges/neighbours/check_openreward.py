"""openreward 0.1: its client at our server, and our client at its server."""

import asyncio

from counter import Counter
from openreward import AsyncOpenReward
from openreward.environments import Environment, Server, TextBlock, ToolOutput, terminal, tool
from plaudit import load_environment
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
