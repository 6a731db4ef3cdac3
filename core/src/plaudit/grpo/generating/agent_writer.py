"""Rollouts of many turns, with tools and environments, as the trainer's writer."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import UsageError
from ...plugins.importing import describe_error
from ...rollout.agent.dialogue import Dialogue
from ...rollout.agent.loop import AgentLoop
from ...rollout.agent.pool import EnvironmentPool
from ...rollout.agent.resets import Start, begin_all, observed
from ...rollout.options import ExtraOptions
from ...rollout.protocol import Generator, SamplingOptions
from ...rollout.stopping import end_tokens
from ...scoring.jobs import Jobs
from ...scoring.scorer import Scorer
from ...types import Message, Rollout, Row
from ..ranks import Ranks
from ..rows.prompts import PromptCodec
from ..writing import Assignment
from .agent_limits import Limits
from .agent_rows import EMPTY_PROMPT
from .agents import Agents

if TYPE_CHECKING:
    from ...rollout.agent.kinds import EnvironmentKind
    from ...rollout.chat import ToolChat
    from ...rollout.chat.rendering import Seen

THREADS = 512
"""Resets and tools that are not coroutines and run at one time."""
_log = logging.getLogger("plaudit.rollout")


@dataclass(slots=True, eq=False)
class AgentWriter:
    """Resets environments, and writes each rollout turn by turn.

    `chats`: how each kind of rollout converses. `seed`: what the seeds of groups are made of. `end_ids`: the tokens
    that end a turn, where there are more than the generator knows.
    """

    codec: PromptCodec
    generator: Generator
    agents: Agents
    chats: dict[EnvironmentKind | None, ToolChat]
    jobs: Jobs
    ranks: Ranks
    limits: Limits
    seed: int
    end_ids: tuple[int, ...] = ()
    pool: EnvironmentPool = field(init=False)
    _broken: set[int] = field(default_factory=set)
    _batch: tuple[Any, int] = (None, 0)
    _last: tuple[ToolChat, list[Message], Seen] | None = None

    late_columns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.pool = EnvironmentPool(self.jobs)
        for kind, instance in self.agents.probes:
            self.pool.add(kind, instance, idle=True)
        self.agents.probes.clear()

    def write(self, work: Assignment, finished: Callable[[Rollout], None]) -> list[Rollout]:
        """Reset, then write turn by turn; each rollout is handed over when it ends, those given up at once."""
        done: dict[int, Rollout] = {}

        def end(dialogue: Dialogue, rollout: Rollout) -> None:
            done[rollout.index] = rollout
            finished(rollout)

        starts = self._starts(work)
        try:
            begin_all(
                [start for start in starts if start is not None],
                self.pool, self.jobs, beside=lambda: self.generator.refresh(work.step),
            )  # fmt: skip
            dialogues = [self._dialogue(index, row, starts[index]) for index, row in enumerate(work.rows)]
            self._warn(starts)
            for dialogue in dialogues:
                if dialogue.finish_reason == "abort":
                    end(dialogue, dialogue.rollout())
            together = getattr(self.generator, "together", False)
            loop = AgentLoop(self.generator, self.jobs, self.limits.rounds, self._anyone if together else None)
            live = [dialogue for dialogue in dialogues if dialogue.finish_reason != "abort"]
            loop.run(live, self._sampling(work.sampling), end, self._is_broken)
        except BaseException:
            for start in starts:
                if start is not None and start.environment is not None:
                    self.pool.give_back(start.environment, broken=True)
            raise
        return [done[index] for index in range(len(work.rows))]

    def scored(self, rollouts: Sequence[Rollout]) -> None:
        """Take their environments back."""
        for rollout in rollouts:
            if rollout.environment is not None:
                broken = id(rollout.environment) in self._broken
                self._broken.discard(id(rollout.environment))
                self.pool.give_back(rollout.environment, broken=broken)

    def rest(self) -> None:
        """Close the environments; more are made when more is written."""
        self.pool.close()

    def close(self) -> None:
        """Close environments and generator."""
        self.rest()
        self.generator.close()

    def _starts(self, work: Assignment) -> list[Start | None]:
        batch = self._batch_name(work)
        first = self.ranks.index * len(work.rows)
        starts: list[Start | None] = []
        for index, row in enumerate(work.rows):
            kind = self.agents.kind_of(row.columns)
            group = (first + index) // work.num_generations
            starts.append(None if kind is None else Start(kind, self._columns(row), seed_of(self.seed, *batch, group)))
        return starts

    def _batch_name(self, work: Assignment) -> tuple[Any, ...]:
        """Which generation batch this is, the same after a resume: several may be written at one step."""
        at = (work.mode, work.step)
        self._batch = (at, self._batch[1] + 1 if self._batch[0] == at else 0)
        return (*at, self._batch[1])

    def _columns(self, row: Row) -> dict[str, Any]:
        hidden = {"environment"} if self.agents.routed else set()
        columns = {name: value for name, value in row.columns.items() if name not in hidden}
        return columns if row.prompt == EMPTY_PROMPT else {"prompt": row.prompt, **columns}

    def _dialogue(self, index: int, row: Row, start: Start | None) -> Dialogue:
        if isinstance(row.prompt, str) or not row.prompt:
            what = "text" if row.prompt else "empty"
            raise UsageError(f"the prompt {row.prompt[:60]!r} is {what}, but tools and environments need conversations")
        kind = None if start is None else start.kind
        chat = self.chats[kind]
        prompt, seen = self._opening(chat, row.prompt, start)
        dialogue = Dialogue(
            index=index,
            row=replace(row, prompt=prompt),
            chat=chat,
            tools=self.agents.tools_of(kind),
            prompt_ids=seen.ids,
            media=seen.media,
            budget=self.limits.budget(row),
            context=self.limits.context,
            environment=None if start is None else start.environment,
            replies=None if kind is None else kind.replies,
        )
        if start is not None:
            dialogue.metrics = {"env/reset_s": start.seconds}
        if dialogue.remaining < 1:
            _log.warning(
                "rollout %d is given up: its prompt of %d tokens fills the context of %d",
                index, len(dialogue.prompt_ids), self.limits.context,
            )  # fmt: skip
        if (start is not None and start.failure is not None) or dialogue.remaining < 1:
            dialogue.finish_reason = "abort"
        if start is not None:
            dialogue.metrics["env/aborted"] = float(dialogue.finish_reason == "abort")
        return dialogue

    def _opening(self, chat: ToolChat, prompt: list[Message], start: Start | None) -> tuple[list[Message], Seen]:
        """The prompt with the first observation; without it, and the rollout given up, where it cannot be rendered."""
        if start is None or start.observation is None:
            return prompt, self._seen(chat, prompt)
        try:
            whole = observed(prompt, start.observation)
            return whole, self._seen(chat, whole)
        except Exception as error:
            start.failure = f"what reset gave cannot be rendered: {describe_error(error)}"
            start.check()
            return prompt, self._seen(chat, prompt)

    def _seen(self, chat: ToolChat, prompt: list[Message]) -> Seen:
        """The prompt as the model is given it: computed once for neighbours with the same, as in a group."""
        if self._last is None or self._last[0] is not chat or self._last[1] != prompt:
            self._last = (chat, prompt, chat.prompt(prompt))
        return self._last[2]

    def _warn(self, starts: Sequence[Start | None]) -> None:
        """One line for each way in which resets failed."""
        failed = Counter(f"{start.kind.label}: {start.failure}" for start in starts if start and start.failure)
        for message, count in failed.items():
            _log.warning("%d of %d rollouts are given up: %s", count, len(starts), message)

    def _sampling(self, sampling: SamplingOptions) -> SamplingOptions:
        """With the tokens that end a turn of this family, where the configuration says nothing of its own."""
        if not self.end_ids or "eos_token_id" in sampling.generation_kwargs:
            return sampling
        return replace(sampling, generation_kwargs={**sampling.generation_kwargs, "eos_token_id": list(self.end_ids)})

    def _anyone(self, here: bool) -> bool:
        return self.ranks.total([float(here)])[0] > 0

    def _is_broken(self, dialogue: Dialogue) -> None:
        self._broken.add(id(dialogue.environment))


def seed_of(*parts: Any) -> int:
    """A seed below 2^31 that these parts alone decide."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") >> 1


def agent_writer(
    args: Any, model: Any, codec: PromptCodec, generator: Generator, scorer: Scorer, ranks: Ranks, agents: Agents
) -> AgentWriter:
    """The writer of a run with tools or environments. Raises UsageError where the chat template cannot carry them."""
    chats = agents.chats(codec.processing_class, codec.chat_template_kwargs)
    known = end_tokens(model, codec.tokenizer, ExtraOptions())
    ends = known.union(*(chat.end_ids for chat in chats.values()))
    prompt = codec.max_prompt_tokens
    context = None if prompt is None else prompt + args.max_completion_length
    return AgentWriter(
        codec=codec,
        generator=generator,
        agents=agents,
        chats=chats,
        jobs=scorer.jobs("agents", threads=THREADS),
        ranks=ranks,
        limits=Limits(
            args.max_completion_length, context, args.max_tool_calling_iterations, args.task_max_completion_length
        ),
        seed=args.seed,
        end_ids=tuple(sorted(ends)) if ends > known else (),
    )
