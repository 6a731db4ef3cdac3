"""Episodes of another system that ask for the model's turns, as environments: the agent loop writes what they ask for.

The other system's own code runs unchanged, as a task on the event loop. It asks a `Policy` for a turn, as it would ask
a model's server, and waits until the loop has written one. Messages on its side are OpenAI's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from plaudit.errors import PlauditError
from plaudit.rollout.chat import ToolCall
from plaudit.types import Message

from .openai_messages import grown, message_of, said_of


class EpisodeOver(PlauditError):
    """No further turn is written: the rollout has no tokens or rounds left, or was given up."""


class EpisodeError(PlauditError):
    """An episode came to no end that can be scored; the message says why."""


@dataclass(frozen=True, slots=True)
class Written:
    """A turn. `message`: OpenAI's. `completion_ids`: its tokens; `context_tokens`: how many it was written from."""

    message: Message
    finish_reason: str
    completion_ids: tuple[int, ...]
    context_tokens: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for: the turn after these messages, with these tools (function schemas)."""

    messages: list[Message]
    tools: list[dict[str, Any]]
    answer: asyncio.Future[Written]


@dataclass(slots=True, eq=False)
class Policy:
    """Where an episode's program asks for turns, one at a time."""

    fault: str | None = None
    _over: bool = False
    _waiting: Wanted | None = None
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> Written:
        """The model's next turn. Raises EpisodeOver when there is none, EpisodeError while another is asked for."""
        if self._over:
            raise EpisodeOver("the rollout has no room for another turn")
        if self._waiting is not None:
            self.fault = "two turns were asked for at one time; a rollout is one dialogue"
            raise EpisodeError(self.fault)
        self._waiting = Wanted(list(messages), list(tools), asyncio.get_running_loop().create_future())
        self._asked.set()
        return await self._waiting.answer

    async def wanted(self, program: asyncio.Task[Any]) -> Wanted | None:
        """What the program asks for next; None when it has ended instead."""
        asked = asyncio.ensure_future(self._asked.wait())
        await asyncio.wait({asked, program}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        return None if program.done() else self._waiting

    def write(self, written: Written) -> None:
        """Give the turn that is waited for."""
        waiting, self._waiting = self._waiting, None
        self._asked.clear()
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(written)

    def end(self) -> None:
        """Write nothing more; what is waited for fails with EpisodeOver."""
        self._over = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_exception(EpisodeOver("the rollout has no room for another turn"))


class ProgramEpisode:
    """An environment whose episode is a program: a subclass says which, and scores what it returns.

    `tool_schemas`: the tools that its requests name. The first request begins the dialogue with the row's prompt, or is
    the prompt where the row has none; each later one must go on from what was said, since nothing is tokenised again.
    """

    tool_schemas: ClassVar[tuple[dict[str, Any], ...]] = ()

    def __init__(self) -> None:
        self._policy = Policy()
        self._program: asyncio.Task[Any] | None = None
        self._known: list[Message] = []

    def program(self, policy: Policy, row: Mapping[str, Any]) -> Awaitable[Any]:
        """The episode of a row, as a coroutine."""
        raise NotImplementedError

    async def reset(self, **row: Any) -> list[Message] | None:
        """Begin. Raises EpisodeError when the episode asks for nothing, or for what the row does not begin with."""
        await self._stop()
        self._policy = Policy()
        self._program = asyncio.ensure_future(self.program(self._policy, row))
        wanted = await self._policy.wanted(self._program)
        if wanted is None:
            self._program.result()
            raise EpisodeError("the episode ended before it asked for a turn")
        self._check_tools(wanted)
        self._known = wanted.messages
        return [message_of(one, wanted.messages) for one in grown(row.get("prompt") or [], wanted.messages)] or None

    async def answer_turn(
        self,
        message: Message,
        calls: Sequence[ToolCall],
        finish_reason: str,
        completion_ids: tuple[int, ...],
        context_tokens: int,
    ) -> list[Message] | None:
        """What the episode says to a turn; None when it is over. Raises EpisodeError when it changed what was said."""
        assert self._program is not None
        said = said_of(message, calls)
        reason = "tool_calls" if calls and finish_reason != "length" else finish_reason
        self._policy.write(Written(said, reason, completion_ids, context_tokens))
        wanted = await self._policy.wanted(self._program)
        if wanted is None:
            return None
        more = grown([*self._known, said], wanted.messages)
        if not more:
            raise EpisodeError("the episode asked again without saying anything to the turn before")
        self._check_tools(wanted)
        self._known = wanted.messages
        return [message_of(one, wanted.messages) for one in more]

    async def outcome(self) -> Any:
        """What the program returned; it is told that no turn follows. Raises what it raised, or EpisodeError."""
        if self._program is None:
            raise EpisodeError("there is no episode; reset begins one")
        self._policy.end()
        try:
            found = await asyncio.shield(self._program)
        except Exception:
            if self._policy.fault is not None:
                raise EpisodeError(self._policy.fault) from None
            raise
        if self._policy.fault is not None:
            raise EpisodeError(self._policy.fault)
        return found

    async def close(self) -> None:
        """Stop the program."""
        await self._stop()

    def _check_tools(self, wanted: Wanted) -> None:
        names = {tool["function"]["name"] for tool in wanted.tools}
        known = {tool["function"]["name"] for tool in self.tool_schemas}
        if names != known:
            raise EpisodeError(
                f"the episode asks for a turn with the tools {sorted(names) or 'none'}; this environment's are "
                f"{sorted(known) or 'none'}, and all its rows must have the same"
            )

    async def _stop(self) -> None:
        program, self._program = self._program, None
        # A loop that has ended takes its tasks with it.
        if program is None or program.done() or program.get_loop() is not asyncio.get_running_loop():
            return
        program.cancel()
        with suppress(BaseException):
            await asyncio.wait({program}, timeout=5.0)
