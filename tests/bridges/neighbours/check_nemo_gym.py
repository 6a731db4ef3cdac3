"""NeMo-Gym's own records take what our server answers, and our requests."""

import asyncio

import pytest
from aiohttp.test_utils import TestClient, TestServer
from plaudit.bridges.foreign import verify_request
from plaudit.bridges.reward_servers import nemo_gym_app
from plaudit.scoring.spec import reward_specs
from plaudit.scoring.web import WebLimits


@pytest.fixture(scope="module")
def records():
    """The request and response classes of its resources server."""
    from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming

    return NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming


def test_our_requests_are_its_records(records):
    response, parameters = records
    asked = verify_request("4", [{"role": "user", "content": "2+2="}])
    assert response.model_validate(asked["response"]).output[0].content[0].text == "4"
    parameters.model_validate(asked["responses_create_params"])


def test_our_answer_keeps_the_request_and_adds_a_reward(records):
    response, _ = records

    async def ask():
        async with TestClient(TestServer(nemo_gym_app(reward_specs(["exact"]), WebLimits()))) as client:
            asked = {**verify_request("4", "2+2="), "answer": "4"}
            return asked, await (await client.post("/verify", json=asked)).json()

    asked, told = asyncio.run(ask())
    assert told["reward"] == 1.0
    assert {**told, **asked} == told
    response.model_validate(told["response"])
