"""Prompts with images and vLLM servers: what the stand-in is asked, and what cannot be asked."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from plaudit.errors import UsageError
from plaudit.rollout.media import Media
from plaudit.rollout.protocol import Request, SamplingOptions
from plaudit.rollout.vllm.http import VLLMServerError
from stand_ins import RIGHT, Policy, by_index

START, PART, END = 40, 41, 42
SAMPLING = SamplingOptions(max_new_tokens=4, top_k=3, stop=("!",))


def seen(*widths):
    """What a prompt holds of pictures: the tensors do not matter here."""
    return Media({"pixels": torch.zeros(1)}, {}, tuple(Image.new("RGB", (width, 4)) for width in widths))


def tokens(*widths):
    return tuple(token for width in widths for token in (7, START, *[PART] * width, END))


@pytest.fixture
def connected(servers, connect):
    """A server, and a generator that has sent it the weights of a policy that sees."""
    (server,) = servers()
    policy = Policy()
    policy.config = type("Config", (), {"image_token_id": PART})()
    generator = connect([server], policy)
    generator.refresh(0)
    return server, generator


def test_pictures_are_prepared_once_and_named_by_the_weights(connected):
    server, generator = connected
    two, one = seen(3, 2), seen(5)
    requests = [
        Request(0, tokens(3, 2), media=two), Request(1, tokens(3, 2), media=two),
        Request(2, (*tokens(5), 8), media=one, max_new_tokens=2), Request(3, (10, 3)),
    ]  # fmt: skip
    made = by_index(generator.generate(requests, SAMPLING))
    assert [one.completion_ids for one in made] == [(RIGHT, 1, 1)] * 4
    assert made[0].logprobs == (-0.5, -0.25, -0.125)
    paths = [path for path, *_ in server.calls]
    assert paths.count("v1/chat/completions/render") == 3
    assert paths.count("inference/v1/generate") == 3
    asked = next(body for path, _, body in server.calls if path.startswith("inference") and 8 in body["token_ids"])
    assert asked["features"]["mm_placeholders"] == {"image": [{"offset": 2, "length": 5}]}
    assert asked["features"]["kwargs_data"] == {"image": ["pixels5"]}
    assert asked["features"]["mm_hashes"] == {"image": [f"picture5-{server.version}"]}
    assert asked["sampling_params"] | {"max_tokens": 2, "top_k": 3, "stop": ["!"]} == asked["sampling_params"]
    assert not {"prompt", "return_token_ids"} & asked["sampling_params"].keys()
    asked = next(body for path, _, body in server.calls if path.startswith("inference") and 8 not in body["token_ids"])
    assert [place["length"] for place in asked["features"]["mm_placeholders"]["image"]] == [3, 2]
    assert [place["offset"] for place in asked["features"]["mm_placeholders"]["image"]] == [2, 8]


def test_a_restart_in_mid_batch_costs_no_picture(connected):
    server, generator = connected
    server.answer_s = lambda prompt: 0.0 if 99 in prompt else 60
    media = seen(3)
    requests = [Request(index, (*tokens(3), 99 + index), media=media) for index in range(3)]
    answers = generator.generate(requests, SAMPLING)
    made = [next(answers)]
    server.restart(after_s=0.2)
    server.answer_s = 0.0
    made += list(answers)
    assert [one.index for one in by_index(made)] == [0, 1, 2]
    assert {one.completion_ids[0] for one in made} == {RIGHT}


@pytest.mark.parametrize("ids", [(7, START, PART, END), tokens(4), (*tokens(2), 8)])
def test_pictures_that_are_elsewhere_are_refused(ids, connected):
    with pytest.raises(UsageError, match="request 0: image 1 is not where the vLLM server would have it"):
        list(connected[1].generate([Request(0, ids, media=seen(3))], SAMPLING))


def test_a_server_that_prepares_no_pictures_says_how_to_start_it(connected):
    server, generator = connected
    server.broken["v1/chat/completions/render"] = (404, "Not Found")
    with pytest.raises(VLLMServerError, match="--enable-scale-out"):
        list(generator.generate([Request(0, tokens(3), media=seen(3))], SAMPLING))
