"""From rows to finished rollouts: one completion each, or (with tools and environments) a whole dialogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from ..rollout.protocol import Generated, Generator, Request, SamplingOptions
from ..types import Rollout, Row
from .rows.prompts import Prepared, PromptCodec
from .rows.tasks import completion_limit

Mode = Literal["train", "eval"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to be written: N rollouts, one for each of `rows`; the rows of a group are consecutive over ranks.

    `step`: the optimizer step whose policy writes. `num_generations`: G.
    """

    rows: Sequence[Row]
    sampling: SamplingOptions
    num_generations: int = 1
    mode: Mode = "train"
    step: int = 0
    trainer_state: Any = None


class Writer(Protocol):
    """Writes the rollouts of a generation batch."""

    @property
    def codec(self) -> PromptCodec:
        """How prompts become token ids."""
        ...

    @property
    def generator(self) -> Generator:
        """Who writes the completions."""
        ...

    @property
    def late_columns(self) -> bool:
        """Whether it adds columns to the rows, so that scoring can only begin when all is written."""
        ...

    def write(self, work: Assignment, finished: Callable[[Rollout], None]) -> list[Rollout]:
        """All rollouts in the order of the rows. Each is handed to `finished` as soon as it is complete."""
        ...

    def scored(self, rollouts: Sequence[Rollout]) -> None:
        """Their scores are in (or will never be): what they hold, such as environments, may be used again."""
        ...

    def rest(self) -> None:
        """Nothing is written for a while: free what can be made again, such as environments."""
        ...

    def close(self) -> None:
        """Free what is held between batches. Calling it again does nothing."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SingleTurnWriter:
    """One completion for each row, by a generator. `task_limits`: most tokens of a task's completions."""

    codec: PromptCodec
    generator: Generator
    task_limits: Mapping[str, int] | None = None
    late_columns: ClassVar[bool] = False

    def write(self, work: Assignment, finished: Callable[[Rollout], None]) -> list[Rollout]:
        """Generate, handing over each rollout as soon as its last token is there."""
        self.generator.refresh(work.step)
        prompts = self.codec.prepare(work.rows)
        requests = [
            Request(
                index, prompt.ids, media=prompt.media, max_new_tokens=completion_limit(row.columns, self.task_limits)
            )
            for index, (row, prompt) in enumerate(zip(work.rows, prompts, strict=True))
        ]
        rollouts: dict[int, Rollout] = {}
        for made in self.generator.generate(requests, work.sampling):
            rollouts[made.index] = self._rollout(work.rows[made.index], prompts[made.index], made)
            finished(rollouts[made.index])
        if len(rollouts) < len(prompts):
            raise RuntimeError(f"the generator returned {len(rollouts)} completions for {len(prompts)} prompts")
        return [rollouts[index] for index in range(len(prompts))]

    def scored(self, rollouts: Sequence[Rollout]) -> None:
        """Rollouts of one turn hold nothing."""

    def rest(self) -> None:
        """Nothing is held between batches but the generator."""

    def close(self) -> None:
        """Close the generator."""
        self.generator.close()

    def _rollout(self, row: Row, prompt: Prepared, made: Generated) -> Rollout:
        return Rollout(
            index=made.index,
            row=row,
            completion=self.codec.decode(row, made.completion_ids),
            completion_ids=made.completion_ids,
            prompt_ids=prompt.ids,
            logprobs=made.logprobs,
            candidates=made.candidates,
            finish_reason=made.finish_reason,
            media=prompt.media,
        )
