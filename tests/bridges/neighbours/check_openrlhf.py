"""OpenRLHF 0.11's agent executor takes our reward function, and our server over HTTP."""

import asyncio
import sys
import types
from importlib.metadata import distribution
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def executor_class():
    """OpenRLHF's own class; what its module imports beside it is not needed."""
    path = next(file for file in distribution("openrlhf").files if str(file).endswith("openrlhf/utils/agent.py"))
    source = Path(distribution("openrlhf").locate_file(path)).read_text()
    for name in ("openrlhf", "openrlhf.utils", "openrlhf.utils.logging_utils"):
        sys.modules.setdefault(name, types.ModuleType(name))
    import logging

    sys.modules["openrlhf.utils.logging_utils"].init_logger = logging.getLogger
    module = types.ModuleType("openrlhf_agent")
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module.SingleTurnAgentExecutor


QUERIES = ["2+2=4", "2+2=5<|im_end|>", "<s>2+2=4</s>"]  # as decoded with their special tokens


def test_the_function(executor_class, tmp_path):
    file = tmp_path / "reward.py"
    file.write_text("from plaudit.bridges.openrlhf import make_reward_func\nreward_func = make_reward_func('exact')\n")
    executor = executor_class(remote_rm_url=str(file))
    told = asyncio.run(executor._fetch_rewards_via_func(QUERIES, ["2+2="] * 3, ["4"] * 3))
    assert [one["rewards"].tolist() for one in told] == [[1.0], [0.0], [1.0]]


def test_the_server(executor_class):
    from aiohttp.test_utils import TestServer
    from plaudit.bridges.reward_servers import openrlhf_app
    from plaudit.scoring.spec import reward_specs
    from plaudit.scoring.web import WebLimits

    async def ask():
        server = TestServer(openrlhf_app(reward_specs(["exact"]), WebLimits(), abstain_score=None))
        await server.start_server()
        try:
            executor = executor_class(remote_rm_url=str(server.make_url("/")))
            return await executor._fetch_rewards_via_http(["2+2=4"], ["2+2="], ["4"])
        finally:
            await server.close()

    assert asyncio.run(ask())[0]["rewards"] == [1.0]
