"""Rewards that another machine serves with `plaudit serve`, used like local ones: `https://host/#name`.

Calls of single rollouts that come together travel in one request; answers stream back one line a rollout.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from plaudit.errors import PluginError, UsageError
from plaudit.plugins.declare import declare
from plaudit.types import Verdict

TOKEN_VARIABLE = "PLAUDIT_SERVE_TOKEN"
FORMAT = 1
_DESCRIBE_TIMEOUT_S = 30.0
_WINDOW_S = 0.002
_BUNDLE = 32
_LINE_LIMIT = 64 * 2**20
_NOT_SENT = frozenset({"trainer_state", "log_extra", "log_metric", "environments"})
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class RemoteFailure(Exception):
    """The served verifier failed on this completion; the message is the server's."""


class RemoteReward:
    """The callable behind a remote reference: a coroutine function with the signature of what is served.

    A served verifier is called with one completion and gives a Verdict; a served reward function with lists, and gives
    one mapping a rollout. Raises ConnectionError (worth a retry) when the server cannot be reached or is overloaded,
    RemoteFailure when the served verifier itself failed.
    """

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.__name__ = name
        described = _describe(url, name)
        self.kind = described["kind"]
        self.__doc__ = described.get("doc")
        self.__signature__ = _signature(described)
        self.__plaudit__ = declare(
            self.kind,
            granularity=described["granularity"],
            executor="loop",
            deterministic=described["deterministic"],
            version=described["version"],
        )
        self._waiting: list[tuple[dict[str, Any], asyncio.Future[Any]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, **arguments: Any) -> Any:
        """Score one completion (verifier) or a list of them (reward function)."""
        if self.kind == "verifier":
            completion = arguments.pop("completion")
            return _verdict(await self._bundled({"completion": completion, "columns": arguments}))
        completions = arguments.pop("completions")
        arguments = {name: values for name, values in arguments.items() if name not in _NOT_SENT}
        rollouts = [
            {"completion": completion, "columns": {name: values[i] for name, values in arguments.items()}}
            for i, completion in enumerate(completions)
        ]
        if len(rollouts) == 1:
            return [await self._bundled(rollouts[0])]
        return await self._together(rollouts)

    async def _bundled(self, rollout: dict[str, Any]) -> Any:
        """Send one rollout, in one request with those that come within two milliseconds."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((rollout, answer))
        if len(self._waiting) >= _BUNDLE:
            self._send_bundle()
        elif len(self._waiting) == 1:
            loop.call_later(_WINDOW_S, self._send_bundle)
        return await answer

    def _send_bundle(self) -> None:
        bundle, self._waiting = self._waiting, []
        if bundle:
            task = asyncio.get_running_loop().create_task(self._send(bundle))
            self._tasks.add(task)  # the loop itself keeps no task alive
            task.add_done_callback(self._tasks.discard)

    async def _together(self, rollouts: Sequence[dict[str, Any]]) -> list[Any]:
        loop = asyncio.get_running_loop()
        pairs = [(rollout, loop.create_future()) for rollout in rollouts]
        await self._send(pairs)
        return list(await asyncio.gather(*(answer for _, answer in pairs)))

    async def _send(self, pairs: Sequence[tuple[dict[str, Any], asyncio.Future[Any]]]) -> None:
        try:
            await self._post(pairs)
            problem: Exception = ConnectionError(f"{self.url} ended its answer early")
        except asyncio.CancelledError:
            problem = ConnectionError(f"the request to {self.url} was cancelled")
            raise
        except Exception as error:
            problem = error
        finally:
            for _, answer in pairs:
                if not answer.done():
                    answer.set_exception(problem)

    async def _post(self, pairs: Sequence[tuple[dict[str, Any], asyncio.Future[Any]]]) -> None:
        import aiohttp

        try:
            body = json.dumps({"format": FORMAT, "rollouts": [rollout for rollout, _ in pairs]}).encode()
        except (TypeError, ValueError) as error:
            raise PluginError(f"'{self.__name__}' at {self.url} takes only what JSON can carry: {error}") from error
        timeout = aiohttp.ClientTimeout(total=None, connect=_DESCRIBE_TIMEOUT_S)
        headers = {"Content-Type": "application/json", **_authorization(self.url)}
        target = f"{self.url}/rewards/{self.__name__}"
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, read_bufsize=_LINE_LIMIT) as session,
                session.post(target, data=body, headers=headers, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    raise _refused(self.url, response.status, await response.text())
                async for line in response.content:
                    answer = json.loads(line)
                    future = pairs[answer.pop("index")][1]
                    if not future.done():
                        future.set_result(answer)
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise ConnectionError(f"{self.url}: {type(error).__name__}: {error}") from error


def _verdict(answer: dict[str, Any]) -> Verdict:
    if "failure" in answer:
        kind, message = answer["failure"]["kind"], answer["failure"]["message"]
        raise RemoteFailure(message if message.startswith(kind) else f"{kind}: {message}")
    numbers = {name for name, value in answer.items() if isinstance(value, (int, float))} - {"score"}
    return Verdict(
        answer["score"],
        reason=answer.get("reason") or "",
        extracted=answer.get("extracted"),
        metrics={name: float(answer[name]) for name in numbers},
        columns={k: v for k, v in answer.items() if k not in numbers | {"score", "reason", "extracted"}},
    )


def _describe(url: str, name: str) -> Mapping[str, Any]:
    """What the server says of one reward. Raises PluginError, naming what it does serve when it knows no such name."""
    try:
        import aiohttp  # noqa: F401  without it no call could be made
    except ImportError:
        raise PluginError(f"a remote reward ({url}#{name}) needs aiohttp: pip install 'plaudit[serve]'") from None
    request = urllib.request.Request(f"{url}/rewards/{name}", headers=_authorization(url))
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(request, timeout=_DESCRIBE_TIMEOUT_S) as response:
            described: Mapping[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        raise _refused(url, error.code, error.read(10_000).decode("utf-8", "replace")) from None
    except (OSError, ValueError) as error:
        raise PluginError(f"no reward server answers at {url} ({error}); start one: plaudit serve {name}") from error
    if described.get("format") != FORMAT:
        raise PluginError(f"{url} speaks format {described.get('format')!r}, this Plaudit {FORMAT}; use one version")
    return described


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _authorization(url: str) -> dict[str, str]:
    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        return {}
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise UsageError(f"{TOKEN_VARIABLE} is set, and {url} would send it in the clear; serve it by https")
    return {"Authorization": f"Bearer {token}"}


def _refused(url: str, status: int, text: str) -> Exception:
    """The error of an answer that is not 200: worth a retry when the server says so (429, 5xx)."""
    message = text.strip()[:500]
    if status == 401:
        return PluginError(f"{url} wants its bearer token; set {TOKEN_VARIABLE}")
    if status == 429 or status >= 500:
        return ConnectionError(f"{url} answered {status}: {message}")
    return PluginError(f"{url} answered {status}: {message}")


def _signature(described: Mapping[str, Any]) -> inspect.Signature:
    required = set(described["required"])
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=inspect.Parameter.empty if name in required else None
        )
        for name in sorted(described["names"], key=lambda name: (name not in required, name))
    ]
    if described["takes_any"]:
        parameters.append(inspect.Parameter("columns", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)
