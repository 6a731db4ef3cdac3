"""Servers that are missing, started wrongly or that refuse: an error that says what to do."""

from __future__ import annotations

import time

import pytest
from plaudit.errors import UsageError
from plaudit.rollout.vllm.http import VLLMServerError
from plaudit.rollout.vllm.push import free_port
from stand_ins import PROMPTS, SAMPLING


def test_a_server_that_is_busy_for_ever_ends_in_an_error(servers, connect):
    (server,) = servers()
    server.broken["health"] = (503, "loading the model")
    began = time.monotonic()
    with pytest.raises(
        VLLMServerError, match=rf"{server.url} after 1 s .vllm_server_timeout.*503: loading.*plaudit vllm"
    ):
        connect([server], timeout_s=1.0)
    assert time.monotonic() - began < 10


def test_nothing_listens(connect):
    port = free_port()
    server = type("Nobody", (), {"url": f"http://127.0.0.1:{port}"})
    with pytest.raises(VLLMServerError, match=rf"127.0.0.1:{port} after 0.5 s"):
        connect([server], timeout_s=0.5)


CANNOT_SERVE = {
    "no vLLM": ("health", (404, "Not Found"), "is no vLLM server"),
    "not in development mode": ("get_world_size", (404, "Not Found"), "VLLM_SERVER_DEV_MODE=1"),
    "key": ("v1/models", (401, "Unauthorized"), "VLLM_API_KEY"),
    "no transfer": ("init_weight_transfer_engine", (500, "Weight transfer not configured"), "not configured.*backend"),
}


@pytest.mark.parametrize("case", CANNOT_SERVE)
def test_servers_that_cannot_serve_are_named_with_the_reason(case, servers, connect):
    path, answer, expected = CANNOT_SERVE[case]
    (server,) = servers()
    server.broken[path] = answer
    with pytest.raises(VLLMServerError, match=expected) as raised:
        connect([server], timeout_s=5.0).refresh(0)
    assert server.url in str(raised.value)


def test_log_probs_before_temperature_are_refused(servers, connect):
    (server,) = servers()
    server.raw_logprobs = True
    with pytest.raises(VLLMServerError, match="--logprobs-mode processed_logprobs"):
        connect([server])


def test_a_request_that_is_wrong_is_not_asked_again(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    server.broken["v1/completions"] = (400, "maximum context length is 128 tokens")
    with pytest.raises(UsageError, match=r"refused a request.*maximum context length is 128"):
        list(generator.generate(PROMPTS, SAMPLING))


def test_a_server_that_fails_each_request_ends_in_an_error(servers, connect, monkeypatch):
    monkeypatch.setattr("plaudit.rollout.vllm.servers.ATTEMPTS", 3)
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    server.broken["v1/completions"] = (500, "CUDA error")
    with pytest.raises(VLLMServerError, match=rf"failed 3 times.*{server.url}.*CUDA error"):
        list(generator.generate(PROMPTS[:1], SAMPLING))


USELESS = {
    "no JSON": ("<html>busy</html>", "what is not JSON: <html>busy"),
    "no object": ("[1, 2]", "cannot be used"),
    "nothing": ("", "cannot be used"),
    "fewer than asked": ('{"choices": []}', "cannot be used.*IndexError"),
    "no token ids": ('{"choices": [{"finish_reason": "stop", "text": "4"}]}', "KeyError: 'token_ids'"),
    "broken off": ('{"choices": [{"finish_reason": "abort", "token_ids": [5]}]}', "ended early: abort"),
    "no token": ('{"choices": [{"finish_reason": "stop", "token_ids": []}]}', "ended early"),
    "no log-probs": ('{"choices": [{"finish_reason": "stop", "token_ids": [5]}]}', "0 log-probs for 1 tokens"),
    "log-probs missing": (
        '{"choices": [{"finish_reason": "stop", "token_ids": [5, 6], "logprobs": {"token_logprobs": [-1, null]}}]}',
        "1 log-probs for 2 tokens",
    ),
}


@pytest.mark.parametrize("case", USELESS)
def test_answers_that_are_no_completions_end_in_an_error(case, servers, connect, monkeypatch):
    monkeypatch.setattr("plaudit.rollout.vllm.servers.ATTEMPTS", 2)
    text, expected = USELESS[case]
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    server.broken["v1/completions"] = (200, text)
    with pytest.raises(VLLMServerError, match=expected):
        list(generator.generate(PROMPTS[:1], SAMPLING))


def test_a_model_that_the_server_does_not_have_is_named(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    server.broken["v1/completions"] = (404, "The model `tiny` does not exist.")
    with pytest.raises(UsageError, match=rf"refused a request.*{server.url}.*404.*`tiny` does not exist"):
        list(generator.generate(PROMPTS[:1], SAMPLING))
