"""Whether a vLLM server is there, and can do what a run needs of it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from .http import HttpLoop, Refused, Unreachable, VLLMServerError

if TYPE_CHECKING:
    from .servers import Server

PROBE_S = 10.0
START_HINT = "Start it with `plaudit vllm serve RUN.toml`, or correct vllm_server_base_url"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


async def wait_until_ready(http: HttpLoop, server: Server, timeout_s: float) -> None:
    """Wait until `server` answers, then learn its model and size.

    Raises VLLMServerError when it is not ready after `timeout_s`, whatever it answers till then, or is one that
    cannot take weights or does not report the log-probs of what it draws from.
    """
    await _until_healthy(http, server.url, timeout_s)
    try:
        # A run that broke off while it sent weights leaves its server paused.
        await _asked(http, "POST", f"{server.url}/resume", timeout_s)
        models = await _asked(http, "GET", f"{server.url}/v1/models", timeout_s)
        server.model, server.max_length = models["data"][0]["id"], models["data"][0].get("max_model_len")
        size = await _asked(http, "GET", f"{server.url}/get_world_size", timeout_s)
        server.workers = int(size["world_size"])
        await _check_logprobs(http, server, timeout_s)
    except Refused as error:
        raise VLLMServerError(_cannot_serve(error)) from error
    except (KeyError, IndexError, TypeError) as error:
        raise VLLMServerError(f"{server.url} does not answer as vLLM does ({error!r}). {START_HINT}") from error
    server.state = "up"


async def _until_healthy(http: HttpLoop, url: str, timeout_s: float) -> None:
    began, pause, tried = time.monotonic(), _FIRST_PAUSE_S, 0
    while True:
        left = timeout_s - (time.monotonic() - began)
        tried += 1
        try:
            await http.call("GET", f"{url}/health", timeout_s=max(0.1, min(PROBE_S, left)))
            return
        except Refused as error:
            raise VLLMServerError(f"{url} is no vLLM server: {error}. {START_HINT}") from error
        except Unreachable as error:
            last = error
        left = timeout_s - (time.monotonic() - began)
        if left <= 0:
            raise VLLMServerError(
                f"no vLLM server was ready at {url} after {timeout_s:g} s (vllm_server_timeout, {tried} tries); the "
                f"last: {last}. {START_HINT}"
            )
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE_S)


async def _asked(http: HttpLoop, method: str, url: str, timeout_s: float, body: Any = None, tries: int = 3) -> Any:
    """One call, tried again when the server is busy or gone."""
    for attempt in range(1, tries + 1):
        try:
            return await http.call(method, url, timeout_s=timeout_s, body=body)
        except Unreachable:
            if attempt == tries:
                raise
            await asyncio.sleep(attempt * _FIRST_PAUSE_S)
    raise AssertionError("the last try returns or raises")


async def _check_logprobs(http: HttpLoop, server: Server, timeout_s: float) -> None:
    """Raise VLLMServerError unless log-probs are those after temperature and truncation.

    With a single token allowed, its log-prob is then 0.
    """
    body = {"model": server.model, "prompt": [0], "max_tokens": 1, "allowed_token_ids": [0], "logprobs": 0}
    answer = await _asked(http, "POST", f"{server.url}/v1/completions", timeout_s, {**body, "ignore_eos": True})
    found = answer["choices"][0]["logprobs"]["token_logprobs"][0]
    if abs(found) > 1e-3:
        raise VLLMServerError(
            f"{server.url} reports log-probs before temperature and truncation; start it with "
            "--logprobs-mode processed_logprobs, as `plaudit vllm serve` does"
        )


def _cannot_serve(error: Refused) -> str:
    if error.status in (401, 403):
        return f"{error}. Set VLLM_API_KEY to the key that the server was started with"
    if error.status == 404:
        return (
            f"{error}. The server must be a vLLM (0.32 or later) in development mode, which takes weights: "
            "VLLM_SERVER_DEV_MODE=1. `plaudit vllm serve RUN.toml` starts it so"
        )
    return f"{error}. {START_HINT}"
