"""Environments that answer turns, for tests: a user who asks twice more, and one whose tools are schemas."""

from __future__ import annotations

import asyncio

from scripted import Keep, chat_rows, make_trainer, turns_of

SCHEMA = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {"where": {"type": "string"}}},
    },
}


class Talk:
    """A user who asks twice more."""

    def reset(self, **row):
        self.heard = []

    async def answer_turn(self, message, finish_reason):
        self.heard.append((message["content"], finish_reason))
        await asyncio.sleep(0)
        return None if len(self.heard) == 3 else f"more {len(self.heard)}"

    def get_reward(self):
        return float(len(self.heard))


def say(text, index):
    return f"turn {turns_of(text)}"


def play(tmp_path, environment, talk=say, **more):
    keep = Keep()
    trainer = make_trainer(
        tmp_path, talk, rows=chat_rows(), reward_funcs=keep, environment_factory=environment, **more
    )  # fmt: skip
    trainer.train()
    return (keep.seen or [None])[0], trainer


class Own(Talk):
    """Its tools are schemas: it answers their calls."""

    tool_schemas = (SCHEMA,)

    async def answer_turn(self, message, calls):
        self.heard.append([(one.name, one.arguments, one.error is None) for one in calls])
        if not calls:
            return None
        return [{"role": "tool", "tool_call_id": one.id, "name": one.name, "content": "dark"} for one in calls]
