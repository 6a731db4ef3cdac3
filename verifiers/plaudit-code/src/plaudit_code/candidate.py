"""A candidate's program in a sandbox, asked for one value at a time. What it answers is data, never a verdict."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from plaudit_sandbox import InfrastructureFailure, Result, Sandbox

from plaudit_code.asserts import WholeTest
from plaudit_code.inside import plain, source_of
from plaudit_code.reference import Task

MAX_ANSWER_BYTES = 8_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gave: a value and the arguments after the call, or an error. `ended`: the program is gone."""

    value: Any = None
    args_after: Any = None
    error: str | None = None
    message: str = ""
    ended: bool = False


class Candidate:
    """Use in `async with`: entering starts the program, leaving ends it and everything that it started.

    Entering waits for a free sandbox, so that no time limit counts the queue; `waited_s` says how long it was.
    Raises InfrastructureFailure where the sandbox breaks.
    """

    def __init__(self, box: Sandbox, source: str, *, entry: str | None, total_s: float) -> None:
        self._box, self._total_s = box, total_s
        self._program = bundle("candidate", SOURCE=source, ENTRY=entry)
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._run: asyncio.Task[Result] | None = None
        self.waited_s = 0.0

    async def __aenter__(self) -> Candidate:
        began = time.monotonic()
        self._run = asyncio.create_task(self._box.run(self._program, timeout_s=self._total_s, on_call=self._exchange))
        try:
            await self._answer(None)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        self.waited_s = time.monotonic() - began
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run is not None and not self._run.done():
            self._run.cancel()
        await asyncio.gather(*filter(None, [self._run]), return_exceptions=True)

    async def _exchange(self, data: bytes) -> bytes:
        self._answers.put_nowait(data)
        return await self._requests.get()

    async def load(self, timeout_s: float) -> Answer:
        """Run the program's own statements."""
        return await self.ask({"do": "load"}, timeout_s)

    async def call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], timeout_s: float, name: str | None = None
    ) -> Answer:
        """Call the function asked for (or another by `name`) with plain data."""
        sent = {"args": plain.encode(list(args)), "kwargs": plain.encode(dict(kwargs))}
        return await self.ask({"do": "call", "name": name, **sent}, timeout_s)

    async def evaluate(self, expression: str, timeout_s: float) -> Answer:
        """Evaluate an expression among the program's names."""
        return await self.ask({"do": "eval", "source": expression}, timeout_s)

    async def ask(self, request: Mapping[str, Any], timeout_s: float) -> Answer:
        """Send one request and wait for its answer; one request at a time."""
        self._requests.put_nowait(json.dumps(request).encode())
        return await self._answer(timeout_s)

    async def _answer(self, timeout_s: float | None) -> Answer:
        assert self._run is not None
        waiting = asyncio.ensure_future(self._answers.get())
        try:
            await asyncio.wait({waiting, self._run}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return read_answer(waiting.result())
        finally:
            waiting.cancel()
        if not self._run.done():
            return Answer(error="timeout", message=f"took longer than {timeout_s:g} s", ended=True)
        return self._ended(self._run.result())

    @staticmethod
    def _ended(result: Result) -> Answer:
        status = "exit" if result.status in ("ok", "failed") else result.status
        tail = result.error_text.strip()[-300:]
        return Answer(error=status, message=result.detail or tail or "the program ended before it answered", ended=True)


def read_answer(data: bytes) -> Answer:
    """The answer in a message from inside. What is no such message is an error of the candidate's."""
    if len(data) > MAX_ANSWER_BYTES:
        return Answer(error="output", message=f"a value of more than {MAX_ANSWER_BYTES} bytes")
    try:
        message = json.loads(data)
        if "error" in message:
            return Answer(error=str(message["error"])[:80], message=str(message.get("message", ""))[:300])
        args = plain.decode(message["args"]) if "args" in message else None
        return Answer(value=plain.decode(message["value"]), args_after=args)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        return Answer(error="protocol", message=f"not an answer: {type(error).__name__}")


def bundle(name: str, **constants: Any) -> str:
    """The program `inside/{name}.py` with the module `plain` and some constants put in front."""
    given = "".join(f"{key} = {value!r}\n" for key, value in constants.items())
    return (
        "import types\nplain = types.ModuleType('plain')\n"
        f"exec(compile({source_of('plain')!r}, '<plain>', 'exec'), plain.__dict__)\n{given}{source_of(name)}"
    )


async def run_whole_test(
    box: Sandbox, candidate: Candidate, test: WholeTest, task: Task, *, timeout_s: float
) -> tuple[bool | None, str]:
    """Run trusted test code in a sandbox of its own, its calls of the candidate's functions carried across as data.

    Returns (passed, why); passed is None where the test needs more than plain data and says nothing of the candidate.
    """
    verdict: dict[str, Any] = {}

    async def carry(data: bytes) -> bytes:
        message = json.loads(data)
        if message["do"] != "call":
            verdict.update(message)
            return b"{}"
        answer = await candidate.ask(message, timeout_s)
        if answer.error is not None:
            return json.dumps({"error": answer.error, "message": answer.message}).encode()
        return json.dumps({"value": plain.encode(answer.value), "args": plain.encode(answer.args_after)}).encode()

    program = bundle("tests", TEST=test.source, SETUP=task.setup, ENTRY=task.entry_point, NAMES=list(test.names))
    # A session: the candidate holds a place among the runs, and waiting there for a second one could block them all.
    async with box.session() as session:
        result = await session.run(program, timeout_s=timeout_s, on_call=carry)
    if verdict.get("do") == "passed":
        return True, ""
    if verdict.get("do") == "failed":
        return False, str(verdict["message"])
    if verdict.get("do") == "unsupported":
        return None, str(verdict["message"])
    if result.status == "timeout":
        return False, f"took longer than {timeout_s:g} s"
    raise InfrastructureFailure(f"the test's own sandbox ended with {result.status}: {result.error_text[-300:]}")
