"""One call to an OpenAI-compatible chat server, with its tokens and cost counted."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from plaudit import PluginError, UsageError

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered: the text, tokens read and written, and cost in the currency of the prices."""

    text: str
    input_tokens: int
    output_tokens: int
    cost: float


@dataclass(frozen=True, slots=True)
class Server:
    """Where the judge runs. Prices are per million tokens; `extra` goes into the request's body as it is."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 60.0
    temperature: float = 0.0
    max_tokens: int = 512
    price_input: float = 0.0
    price_output: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_options(cls, model: str, base_url: str | None, more: dict[str, Any] | None) -> Server:
        """A server from a run file's options. The key comes from the environment variable that `api_key_env` names.

        Raises UsageError without a URL and on an unknown field.
        """
        options = dict(more or {})
        key = os.environ.get(options.pop("api_key_env", "OPENAI_API_KEY"))
        known = {one.name for one in fields(cls)} - {"base_url", "model", "api_key"}
        if unknown := sorted(set(options) - known):
            raise UsageError(
                f"unknown judge server option {unknown[0]!r}; known: {', '.join(sorted(known))}, api_key_env"
            )
        url = base_url or os.environ.get("OPENAI_BASE_URL")
        if not url:
            raise UsageError("a judge needs a server: set the option base_url (…/v1) or OPENAI_BASE_URL")
        return cls(url.rstrip("/"), model, key, **options)


class Chat:
    """Sends chats to a server. Calls that are under way at the same time share one connection pool."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._session: Any = None
        self._users = 0

    async def ask(self, messages: list[dict[str, str]]) -> Reply:
        """The server's reply.

        Raises ConnectionError or TimeoutError on what a retry can cure (an unreachable or overloaded server), and
        PluginError on what it cannot (a refused key, an unknown model, a reply that is no chat completion).
        """
        import aiohttp

        server = self.server
        body = {"model": server.model, "messages": messages, "temperature": server.temperature}
        body |= {"max_tokens": server.max_tokens, **server.extra}
        try:
            async with self._shared_session() as session:
                request = session.post(f"{server.base_url}/chat/completions", json=body, headers=_headers(server))
                async with request as response:
                    return _read(server, response.status, await response.text())
        except TimeoutError as error:
            raise TimeoutError(f"judge {server.model!r} gave no reply in {server.timeout_s} s") from error
        except aiohttp.ClientError as error:
            raise ConnectionError(f"judge at {server.base_url} cannot be reached: {error}") from error

    @asynccontextmanager
    async def _shared_session(self) -> AsyncIterator[Any]:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self.server.timeout_s))
        session = self._session
        self._users += 1
        try:
            yield session
        finally:
            self._users -= 1
            if self._users == 0:
                self._session = None
                await session.close()


def _headers(server: Server) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}


def _read(server: Server, status: int, text: str) -> Reply:
    import json

    if status in _RETRIED:
        raise ConnectionError(f"judge {server.model!r} answered {status}: {text[:200]}")
    if status != 200:
        raise PluginError(f"judge {server.model!r} at {server.base_url} answered {status}: {text[:200]}")
    try:
        answer = json.loads(text)
        content = answer["choices"][0]["message"]["content"] or ""
    except (ValueError, LookupError, TypeError) as error:
        raise PluginError(f"judge {server.model!r} answered no chat completion: {text[:200]}") from error
    usage = answer.get("usage") or {}
    read, written = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
    cost = (read * server.price_input + written * server.price_output) / 1e6
    return Reply(str(content), read, written, cost)
