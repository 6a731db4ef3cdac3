"""Random dialogues through the agent loop's own record of a rollout, and whether what is trained on was sampled."""

from __future__ import annotations

import random
from dataclasses import dataclass

from conversations import SCHEMAS, words
from family_tokenizers import tokenizer_of
from plaudit.rollout.agent.dialogue import Dialogue
from plaudit.rollout.chat import ToolChat, tool_chat
from plaudit.rollout.protocol import Generated
from plaudit.types import Row

QUESTION = {"role": "user", "content": "What is two and two?"}


@dataclass(frozen=True, slots=True)
class Exactness:
    """Of random dialogues with one template: turns, turns that change when they are encoded again, and exact ones.

    `same_ids`: dialogues whose ids under the mask are those sampled, in order. `same_mask`: dialogues whose mask marks
    them and nothing else.
    """

    dialogues: int
    turns: int
    merged: int
    same_ids: int
    same_mask: int


def exactness(name: str, *, dialogues: int = 200, seed: int = 0) -> Exactness:
    """Write dialogues of random token ids for the family `name`, each with one to four turns of the model.

    Tools or a user speak between them.
    """
    rng = random.Random(f"{name} {seed}")
    tokenizer = tokenizer_of(name)
    chat = tool_chat(tokenizer, {}, SCHEMAS)
    turns = merged = same_ids = same_mask = 0
    for index in range(dialogues):
        dialogue, sampled, suffixes = _written(chat, rng, index)
        for turn in sampled:
            turns += 1
            again = tokenizer(text=tokenizer.decode(list(turn)), add_special_tokens=False)["input_ids"]
            merged += tuple(again) != turn
        rollout = dialogue.rollout()
        mask = rollout.tool_mask or (1,) * len(rollout.completion_ids)
        own = [one for one, kept in zip(rollout.completion_ids, mask, strict=True) if kept]
        same_ids += own == [one for turn in sampled for one in turn]
        wanted = [
            one for turn, suffix in zip(sampled, [*suffixes, 0], strict=True) for one in [1] * len(turn) + [0] * suffix
        ]
        same_mask += list(mask) == wanted
    return Exactness(dialogues, turns, merged, same_ids, same_mask)


def _written(chat: ToolChat, rng: random.Random, index: int) -> tuple[Dialogue, list[tuple[int, ...]], list[int]]:
    """A dialogue with what was sampled in each turn, and the length of what stands behind each but the last."""
    dialogue = Dialogue(
        index=index,
        row=Row([QUESTION]),
        chat=chat,
        tools={"clock": None},
        prompt_ids=chat.prompt_ids([QUESTION]),
        budget=10_000,
    )
    sampled, suffixes = [], []
    for last in (*[False] * rng.randint(0, 3), True):
        turn = tuple(rng.randrange(len(chat.template.tokenizer)) for _ in range(rng.randint(1, 12)))
        if rng.random() < 0.7:
            turn += (rng.choice(sorted(chat.end_ids)),)
        calls = dialogue.add_turn(Generated(index, turn, (0.0,) * len(turn), "stop"))
        sampled.append(turn)
        if last:
            return dialogue, sampled, suffixes
        names = [call.name or "tool" for call in calls] or ["clock"]
        answers = [{"role": "tool", "name": name, "content": words(rng) or "ok"} for name in names]
        if rng.random() < 0.4:  # a user speaks instead
            answers = [{"role": "user", "content": words(rng) or "go on"}]
        before = len(dialogue.completion_ids)
        assert dialogue.add_answers(answers)
        suffixes.append(len(dialogue.completion_ids) - before)
    raise AssertionError("unreachable")
