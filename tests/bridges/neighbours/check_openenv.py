"""openenv-core 0.3: its client at our environment, and our client at an environment of its own."""

import asyncio
from typing import Any

from counter import Counter
from openenv.core import GenericEnvClient
from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from plaudit import load_environment
from plaudit.bridges.openenv_server import openenv_app
from serving_asgi import served_asgi


def test_its_client_plays_an_episode_at_our_server():
    with (
        served_asgi(openenv_app(Counter, [{"goal": 5}, {"goal": 3}])) as url,
        GenericEnvClient(base_url=url).sync() as client,
    ):
        began = client.reset(seed=1)
        said = client.step({"tool": "add", "arguments": {"number": 3}})
        wrong = client.step({"tool": "fly"})
        end = client.step({"answer": "done"})
    assert began.observation["text"] == "count to 3"
    assert began.observation["tools"][0]["function"]["name"] == "add"
    assert (said.observation["text"], said.done) == ("3", False)
    assert "no tool 'fly'" in wrong.observation["text"]
    assert (end.reward, end.done) == (1.0, True)


class Guess(Action):
    number: int


class Hint(Observation):
    text: str = ""


class Guessing(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **kwargs: Any):
        self.secret = kwargs.get("secret", 7)
        return Hint(text="guess")

    def step(self, action, timeout_s=None, **kwargs: Any):
        right = action.number == self.secret
        return Hint(text="yes" if right else "no", done=right, reward=float(right))

    @property
    def state(self):
        return State()


def test_our_client_plays_an_episode_at_its_server():
    async def play(url):
        environment = load_environment("openenv", options={"url": url})()
        said = [await environment.reset(secret=4), await environment.step(number=3), await environment.step(number=4)]
        reward = environment.get_reward()
        await environment.close()
        return said, reward, environment.step.__tool_schema__["function"]["parameters"]["properties"]

    with served_asgi(create_app(Guessing, Guess, Hint, max_concurrent_envs=8)) as url:
        said, reward, properties = asyncio.run(play(url))
    assert (said, reward, list(properties)) == (["guess", "no", "yes"], 1.0, ["number"])
