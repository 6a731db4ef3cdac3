"""The rounds of a generation batch: the model writes a turn, tools or environment answer, until none does."""

from __future__ import annotations

import logging
import queue
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...scoring.jobs import Jobs
from ...types import Rollout
from ..protocol import Generator, Request, SamplingOptions
from .dialogue import Dialogue
from .replies import Reply
from .turns import Turn

if TYPE_CHECKING:
    from ..chat import ToolCall

_log = logging.getLogger("plaudit.rollout")


@dataclass(frozen=True, slots=True)
class AgentLoop:
    """Writes dialogues to their ends.

    A round generates one turn of every dialogue that goes on. The calls of a turn start as soon as it is written,
    beside the others' generation. The next round begins when all of them are answered, so that the same seeds and
    answers give the same batches, and so the same completions.

    `max_rounds`: turns that are answered, None = no limit. `anyone`: whether any rank goes on, where all ranks must
    generate together; None where each generates by itself.
    """

    generator: Generator
    jobs: Jobs
    max_rounds: int | None = None
    anyone: Callable[[bool], bool] | None = None

    def run(
        self,
        dialogues: Sequence[Dialogue],
        sampling: SamplingOptions,
        finished: Callable[[Dialogue, Rollout], None],
        broken: Callable[[Dialogue], None] = lambda dialogue: None,
    ) -> None:
        """Write all of them; each is given to `finished` with its rollout when it ends.

        `broken` is told of those whose environment a call may still be at work on.
        """
        live = list(dialogues)
        number = 0
        while self._goes_on(live):
            seed = None if sampling.seed is None else sampling.seed + number
            turns = self._generate(live, replace(sampling, seed=seed), finished)
            lost: Counter[str] = Counter()
            live = []
            for turn in turns:
                if turn.broken:
                    broken(turn.dialogue)
                if self._answered(turn, lost):
                    live.append(turn.dialogue)
                else:
                    finished(turn.dialogue, turn.dialogue.rollout())
            for reason, count in lost.items():
                _log.warning("%d of %d rollouts are given up: %s", count, len(dialogues), reason)
            live.sort(key=lambda dialogue: dialogue.index)
            number += 1

    def _goes_on(self, live: Sequence[Dialogue]) -> bool:
        return self.anyone(bool(live)) if self.anyone is not None else bool(live)

    def _generate(
        self, live: Sequence[Dialogue], sampling: SamplingOptions, finished: Callable[[Dialogue, Rollout], None]
    ) -> list[Turn | Reply]:
        """One round: generate, running tools beside it. Returns the turns that are answered."""
        by_index = {dialogue.index: dialogue for dialogue in live}
        answered: queue.SimpleQueue[Turn | Reply] = queue.SimpleQueue()
        turns: list[Turn | Reply] = []
        requests = [Request(one.index, one.context_ids, media=one.media, max_new_tokens=one.remaining) for one in live]
        try:
            for made in self.generator.generate(requests, sampling):
                dialogue = by_index.pop(made.index)
                turn = self._turn(dialogue, dialogue.add_turn(made), answered.put)
                if turn is None:
                    finished(dialogue, dialogue.rollout())
                    continue
                dialogue.rounds += 1
                turns.append(turn)
                turn.start()
            if by_index:
                raise RuntimeError(f"the generator returned {len(live) - len(by_index)} completions for {len(live)}")
            for _ in turns:
                answered.get()
        except BaseException:
            for turn in turns:
                turn.cancel()
            raise
        return turns

    def _turn(self, dialogue: Dialogue, calls: list[ToolCall], done: Callable[[Any], None]) -> Turn | Reply | None:
        """Who answers a turn; None where nobody does."""
        over = self.max_rounds is not None and dialogue.rounds >= self.max_rounds
        replies = dialogue.replies
        if replies is not None and (replies.takes_calls or not calls or over):
            # The last turn too: the environment hears all that was said.
            return Reply(dialogue, calls, replies, self.jobs, done, last=over)
        return Turn(dialogue, calls, self.jobs, done) if calls and not over else None

    def _answered(self, turn: Turn | Reply, lost: Counter[str]) -> bool:
        """Add the answers; whether the dialogue goes on. Counts why it is given up, where it is."""
        dialogue, reason = turn.dialogue, turn.aborts
        answers = turn.answers()
        if reason is None:
            if answers is None:
                return False
            try:
                return dialogue.add_answers(answers) and dialogue.remaining > 0
            except Exception as error:
                reason = f"its answer cannot be rendered: {type(error).__name__}: {error}"
        dialogue.give_up()
        lost[reason] += 1
        return False
