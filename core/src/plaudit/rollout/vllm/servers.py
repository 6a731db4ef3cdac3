"""The vLLM servers of a run: which are up, who is asked next, and whether an answer came from the right weights.

A server is `up`, `lost` (it does not answer) or `stale` (it answers, but after a restart with other weights). What it
did not answer, or answered with other weights, is asked again: of another server, or of the same when it is back.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from .http import HttpLoop, TimedOut, Unreachable, VLLMServerError
from .startup import PROBE_S, START_HINT, wait_until_ready

T = TypeVar("T")
State = Literal["up", "lost", "stale"]
VERSION_PREFIX = "plaudit-"
ATTEMPTS = 8
TIMEOUTS = 3  # a completion that takes too long costs more than one that fails
# What vLLM decodes at once unless told otherwise; more would only wait there.
IN_FLIGHT = 256
POLL_S = 0.05
LONGEST_PAUSE_S = 2.0


@dataclass(eq=False, slots=True)
class Server:
    """One server. `load`: requests under way. `workers`: processes that take weights. `problem`: why it is not up.

    `max_length`: tokens of prompt and completion together.
    """

    url: str
    index: int
    state: State = "lost"
    load: int = 0
    model: str = ""
    workers: int = 1
    max_length: int | None = None
    problem: str = "it was never asked"
    checks: list[asyncio.Future[str]] = field(default_factory=list)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)


class ServerPool:
    """All servers. Its coroutines run on the loop of `http`; `state` may be set from any thread.

    `timeout_s`: how long servers may stay unreachable, at the start and later. `request_timeout_s`: how long one
    completion may take. `version`: the weights that answers must come from; None = any.
    """

    def __init__(self, http: HttpLoop, urls: Sequence[str], *, timeout_s: float, request_timeout_s: float) -> None:
        self.http = http
        self.servers = [Server(url.rstrip("/"), index) for index, url in enumerate(urls)]
        self.timeout_s = timeout_s
        self.request_timeout_s = request_timeout_s
        self.version: str | None = None
        self.failure: VLLMServerError | None = None
        self._dark_since: float | None = None
        self._slots = asyncio.Semaphore(IN_FLIGHT * len(self.servers))

    def connect(self) -> None:
        """Wait until every server is ready. Raises VLLMServerError after `timeout_s`, or on one that cannot serve."""

        async def all_ready() -> None:
            await asyncio.gather(*(wait_until_ready(self.http, server, self.timeout_s) for server in self.servers))

        self.http.run(all_ready())

    @property
    def max_length(self) -> int | None:
        """Tokens of prompt and completion that every server takes; None = not known."""
        return min((server.max_length for server in self.servers if server.max_length), default=None)

    @property
    def stale(self) -> list[Server]:
        """Servers that are back without the run's weights."""
        return [server for server in self.servers if server.state == "stale"]

    def expect(self, version: str, servers: Sequence[Server]) -> None:
        """From now on answers must come from `version`, which these servers have."""
        self.version = version
        for server in self.servers:
            if server in servers:
                server.state = "up"
            else:
                self.lose(server, server.problem)

    def lose(self, server: Server, problem: str) -> None:
        """Ask `server` nothing until it is seen to be up again. From any thread."""
        server.state, server.problem = "lost", problem

        async def watch() -> None:
            self._watch(server)

        self.http.start(watch())

    async def ask(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        """What `read` makes of the answer to a request, from the right weights, whatever servers do meanwhile.

        `read` raises where it cannot: then it is asked again. Raises VLLMServerError when no server can be reached for
        `timeout_s`, or this request fails too often; http.Refused when a server calls the request itself wrong.
        """
        # Those that wait here for their turn cost nothing.
        async with self._slots:
            return await self._answer(path, body, read)

    async def _answer(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        failed: Counter[Server] = Counter()
        while True:
            server = await self._acquire(failed)
            try:
                found = await self._ask(server, path, body, read)
                if self.version is None or await self._version(server) == self.version:
                    return found
                self._lose(server, "it restarted, and has other weights than the run's")
            except Unreachable as error:
                self._lose(server, str(error))
                failed[server] += 1
                tried = failed.total()
                if tried >= (TIMEOUTS if isinstance(error, TimedOut) else ATTEMPTS):
                    raise VLLMServerError(
                        f"a completion failed {tried} times on the vLLM servers ({self._names()}), last: {error}. "
                        "See the server's log"
                    ) from error
                await asyncio.sleep(min(POLL_S * 2**tried, LONGEST_PAUSE_S))
            finally:
                server.load -= 1

    async def _ask(self, server: Server, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        # The salt keeps prefixes that older weights computed from being read.
        extra = {"model": server.model} if self.version is None else {"model": server.model, "cache_salt": self.version}
        url = f"{server.url}/{path}"
        answer = await self.http.call("POST", url, timeout_s=self.request_timeout_s, body={**body, **extra})
        try:
            return read(answer)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            shown = f"{type(error).__name__}: {error}"
            raise Unreachable(f"POST {url} answered what cannot be used ({shown}): {str(answer)[:200]}") from error

    async def _acquire(self, failed: Counter[Server]) -> Server:
        """The least loaded server that is up, with its load raised; waits for one. Those that `failed` come last."""
        while True:
            if self.failure is not None:
                raise self.failure
            up = [server for server in self.servers if server.state == "up"]
            if up:
                self._dark_since = None
                server = min(up, key=lambda one: (failed[one], one.load, one.index))
                if server.load < IN_FLIGHT:
                    server.load += 1
                    return server
            else:
                self._check_patience()
            await asyncio.sleep(POLL_S)

    def _check_patience(self) -> None:
        """Raise VLLMServerError when no server was up for too long."""
        now = time.monotonic()
        self._dark_since = self._dark_since or now
        # A server that is back waits for the weights, and the trainer may be in the middle of a step.
        limit = self.request_timeout_s if self.stale else self.timeout_s
        if now - self._dark_since > limit:
            problems = "; ".join(f"{server.url} is {server.state}: {server.problem}" for server in self.servers)
            raise VLLMServerError(f"no vLLM server was usable for {limit:g} s: {problems}. {START_HINT}")

    def _lose(self, server: Server, problem: str) -> None:
        server.problem = problem
        if server.state == "up":
            server.state = "lost"
        self._watch(server)

    def _watch(self, server: Server) -> None:
        task = server.tasks.get("watch")
        if task is None or task.done():
            server.tasks["watch"] = asyncio.ensure_future(self._watch_until_up(server))

    async def _watch_until_up(self, server: Server) -> None:
        """Ask a server now and then until it is there with the right weights."""
        pause = POLL_S
        while server.state != "up":
            try:
                version = await self._version(server)
                if version == self.version:  # a push that broke off at its very end may have left it paused
                    await self.http.call("POST", f"{server.url}/resume", timeout_s=PROBE_S)
            except VLLMServerError as error:
                server.state, server.problem = "lost", str(error)
            else:
                server.state = "up" if version == self.version else "stale"
                self._refuse_foreign(server, version)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE_S)

    def _refuse_foreign(self, server: Server, version: str) -> None:
        own = (self.version or "").rpartition("-")[0]
        if own and version.startswith(VERSION_PREFIX) and version.rpartition("-")[0] != own:
            self.failure = VLLMServerError(
                f"another run sends its weights to {server.url} ({version}); give each run servers of its own"
            )

    async def _version(self, server: Server) -> str:
        """The weights that a server has after this call: one request for all who ask meanwhile."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        server.checks.append(answer)
        task = server.tasks.get("version")
        if task is None or task.done():
            server.tasks["version"] = asyncio.ensure_future(self._answer_checks(server))
        return await answer

    async def _answer_checks(self, server: Server) -> None:
        while server.checks:
            waiting, server.checks = server.checks, []
            try:
                found = await self.http.call("GET", f"{server.url}/weight_info", timeout_s=PROBE_S)
                version = str(found["weight_version"])
            except (VLLMServerError, KeyError, TypeError) as error:
                _settle(waiting, Unreachable(str(error)))
            else:
                _settle(waiting, version)

    def _names(self) -> str:
        return ", ".join(server.url for server in self.servers)


def _settle(waiting: Sequence[asyncio.Future[str]], result: str | Exception) -> None:
    for answer in waiting:
        if answer.done():
            continue
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)
