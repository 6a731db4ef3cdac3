"""A JSON client for the servers of other systems: timeouts, retries where nothing was done, errors that say where."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plaudit.errors import PlauditError, UsageError

TRIES = 3
BACKOFF_S = 0.5
_TRANSIENT = (502, 503, 504)
_KINDS: dict[type, str] = {dict: "an object", list: "a list", str: "text"}


class ServerError(PlauditError):
    """A server answered with an error; the message names the address and what it said."""


@dataclass(slots=True, eq=False)
class JSONClient:
    """One server. `timeout_s`: of one request. Each event loop has a connection pool of its own; `close` ends this
    loop's. Raises UsageError on an address that is none.
    """

    url: str
    timeout_s: float = 60.0
    headers: Mapping[str, str] = field(default_factory=dict)
    _sessions: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise UsageError(f"url is {self.url!r}; expected http://host:port")
        if not self.timeout_s > 0:
            raise UsageError(f"timeout_s is {self.timeout_s!r}; expected more than 0")

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON answer. Raises ConnectionError when the server cannot be reached, ServerError on its errors."""
        return self._json("GET", path, await self._ask("GET", path, None, headers))

    async def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
        """As `get`, with a JSON body."""
        return self._json("POST", path, await self._ask("POST", path, body, headers))

    async def events(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> dict[str, str]:
        """The server-sent events of an answer by name; the data of equal names is joined."""
        found: dict[str, str] = {}
        for block in (await self._ask("POST", path, body, headers)).replace("\r\n", "\n").split("\n\n"):
            fields = [line.partition(":") for line in block.split("\n") if not line.startswith(":")]
            name = next((value.strip() for key, _, value in fields if key == "event"), "message")
            data = "\n".join(value.removeprefix(" ") for key, _, value in fields if key == "data")
            found[name] = found.get(name, "") + data
        return found

    async def socket(self, path: str) -> Any:
        """A WebSocket of the server. Raises ConnectionError when it cannot be reached."""
        import aiohttp

        try:
            return await self._session().ws_connect(self.url.rstrip("/") + path, max_msg_size=0)
        except aiohttp.ClientError as error:
            raise ConnectionError(f"{self.url}{path} cannot be reached: {error}; is the server running?") from error

    async def close(self) -> None:
        """End this loop's connections."""
        session = self._sessions.pop(id(asyncio.get_running_loop()), None)
        if session is not None:
            await session.close()

    def _json(self, method: str, path: str, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            said = text[:80].strip() or "nothing"
            raise ServerError(f"{method} {self.url.rstrip('/')}{path} answered {said!r}; expected JSON") from None

    async def _ask(self, method: str, path: str, body: Any, headers: Mapping[str, str] | None) -> str:
        import aiohttp

        address = self.url.rstrip("/") + path
        for attempt in range(TRIES):
            try:
                async with self._session().request(method, address, json=body, headers=headers) as answer:
                    text = await answer.text()
                    if answer.status < 400:
                        return text
                    if answer.status not in _TRANSIENT or attempt == TRIES - 1:
                        raise ServerError(f"{method} {address} answered {answer.status}: {text[:300].strip()}")
            except aiohttp.ClientConnectorError as error:
                if attempt == TRIES - 1:
                    raise ConnectionError(f"{address} cannot be reached: {error}; is the server running?") from error
            except TimeoutError:
                raise TimeoutError(f"{method} {address} did not answer within {self.timeout_s:g} s") from None
            except aiohttp.ClientError as error:
                raise ConnectionError(f"{method} {address} failed: {error}") from error
            await asyncio.sleep(BACKOFF_S * 2**attempt)
        raise AssertionError("unreachable")

    def _session(self) -> Any:
        import aiohttp

        key = id(asyncio.get_running_loop())
        if key not in self._sessions or self._sessions[key].closed:
            timeout = aiohttp.ClientTimeout(total=self.timeout_s)
            self._sessions[key] = aiohttp.ClientSession(timeout=timeout, headers=dict(self.headers))
        return self._sessions[key]


def part_of(told: Any, name: str, kind: type | tuple[type, ...], where: str) -> Any:
    """A part of an answer. Raises ServerError, which says where, unless it is there and of that kind."""
    found = told.get(name) if isinstance(told, Mapping) else None
    if not isinstance(found, kind):
        wanted = _KINDS.get(kind, "a number") if isinstance(kind, type) else "a number"
        raise ServerError(f"{where} answered {told!r:.120}; expected {name!r} in it, {wanted}")
    return found


def number_of(value: Any, what: str, where: str) -> float:
    """A finite number. Raises ServerError, which says where, on anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ServerError(f"{where} gave {what} = {value!r:.60}; expected a finite number")
    return float(value)


def ask_now(url: str, path: str, body: Any = None, *, timeout_s: float = 30.0, headers: Any = None) -> Any:
    """One JSON request outside an event loop: a GET, or a POST with a body. Raises as `JSONClient`."""

    async def once() -> Any:
        client = JSONClient(url, timeout_s, headers or {})
        try:
            return await (client.get(path) if body is None else client.post(path, body))
        finally:
            await client.close()

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:  # a loop may be running in this thread already
        return pool.submit(asyncio.run, once()).result()
