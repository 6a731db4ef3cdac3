"""HTTP from one event loop in a daemon thread: every call has a timeout, and an error that says what was tried."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import PlauditError, UsageError

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
KEY_VARIABLE = "VLLM_API_KEY"
CONNECT_S = 10.0
SHOWN = 400


class VLLMServerError(PlauditError):
    """A vLLM server that cannot be used; the message names its URL, what was tried and what to do."""


class Unreachable(VLLMServerError):
    """No answer, or one that says "not now" (429, 5xx): worth another try."""


class TimedOut(Unreachable):
    """No answer in the time that there was."""


class Refused(VLLMServerError):
    """An answer that another try would not change (4xx). `status`: its code."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class HttpLoop:
    """An event loop in a daemon thread, with one aiohttp session."""

    def __init__(self) -> None:
        """Raises UsageError when aiohttp is not installed."""
        try:
            import aiohttp  # noqa: F401
        except ImportError:
            raise UsageError("a vLLM server is talked to with aiohttp: pip install 'plaudit[vllm-client]'") from None
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="plaudit-vllm-http", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin `work` on the loop; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` on the loop and wait for it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def call(
        self, method: str, url: str, *, timeout_s: float, body: Any = None, query: Mapping[str, str] | None = None
    ) -> Any:
        """One request; returns the JSON of the answer, None where it has none. On the loop only.

        Raises Unreachable (no connection, no answer in `timeout_s`, 429, 5xx) or Refused (any other status but 2xx).
        """
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=min(CONNECT_S, timeout_s))
        try:
            async with self._opened().request(
                method, url, json=body, params=query, timeout=timeout, headers=_authorization(), allow_redirects=False
            ) as answer:
                text = await answer.text()
        except TimeoutError:
            raise TimedOut(f"{method} {url}: no answer in {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"{method} {url}: {str(error) or type(error).__name__}") from error
        if answer.status == 429 or answer.status >= 500:
            raise Unreachable(f"{method} {url} answered {answer.status}: {text.strip()[:SHOWN]}")
        if not 200 <= answer.status < 300:
            raise Refused(f"{method} {url} answered {answer.status}: {text.strip()[:SHOWN]}", answer.status)
        return _parsed(text, f"{method} {url}")

    def close(self) -> None:
        """Cancel what runs, close connections, end the thread. Calling it again does nothing."""
        if self._loop.is_closed() or threading.current_thread() is self._thread:
            return
        self.start(self._wind_down()).result(CONNECT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONNECT_S)
        self._loop.close()

    async def _wind_down(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            # The servers are named by the user: a proxy of the environment is not meant for them.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)
        return self._session


def _authorization() -> dict[str, str]:
    key = os.environ.get(KEY_VARIABLE)
    return {"Authorization": f"Bearer {key}"} if key else {}


def _parsed(text: str, what: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError:
        raise Unreachable(f"{what} answered what is not JSON: {text.strip()[:SHOWN]}") from None
