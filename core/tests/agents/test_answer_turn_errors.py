"""Answers to turns that fail, and environments that cannot answer any."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest
from plaudit.errors import UsageError
from plaudit.rollout.agent import EnvironmentSpec
from plaudit.rollout.agent.turns import ToolError
from scripted import chat_rows, make_trainer
from talking import SCHEMA, Own, Talk, play, say


def answering(value):
    """An environment that answers each turn with this, or raises it."""

    class Answers(Talk):
        def answer_turn(self, message):
            if isinstance(value, Exception):
                raise value
            return value

    return Answers


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (RuntimeError("no more"), "no more"),
        (TimeoutError("no line"), "no line"),
        ([1], "expected text, a list of messages or content blocks"),
        ([], "expected text, a list of messages or content blocks"),
        (7, "gave 7; expected text"),
        ({"role": "user", "content": "so"}, "expected text, a list of messages"),
        ([{"role": "assistant", "content": "mine"}], "role 'assistant'; expected one of user, tool, system"),
        ([{"role": "user"}], "the content None; expected text or content blocks"),
        ([{"role": "user", "content": "a"}, {"type": "text", "text": "b"}], "expected text, a list of messages"),
        ([{"type": "image", "image": None}], "cannot be rendered"),
    ],
)
def test_an_answer_that_cannot_be_gives_the_rollout_up(tmp_path, value, said, caplog):
    seen, trainer = play(tmp_path, answering(value))
    assert seen is None, "nothing is left to score"
    assert said in caplog.text
    assert trainer.state.log_history[0]["env/aborted"] == 1


@pytest.mark.parametrize("value", [RuntimeError("no more"), [1]], ids=["raises", "wrong"])
def test_it_ends_the_run_where_that_is_asked_for(tmp_path, value):
    with pytest.raises(ToolError, match=r"no more|expected text"):
        play(tmp_path, EnvironmentSpec(answering(value), on_error="raise"))


def test_an_answer_that_hangs_costs_its_rollout_and_its_instance(tmp_path):
    class Hangs(Talk):
        closed: ClassVar[list] = []

        async def answer_turn(self, message):
            if message["content"] == "hang":
                await asyncio.sleep(60)

        def close(self):
            self.closed.append(self)

    seen, trainer = play(
        tmp_path,
        EnvironmentSpec(Hangs, timeout_s=0.1),
        lambda text, index: "hang" if index == 2 else "so",
    )
    assert len(seen["completions"]) == 7
    assert trainer.state.log_history[0]["env/aborted"] == 1 / 8
    trainer.source.collector.writer.rest()
    assert len({id(one) for one in Hangs.closed}) == len(Hangs.closed) == 8


class NoAnswer:
    tool_schemas = (SCHEMA,)

    def reset(self):
        pass


class TakesMore(Talk):
    async def answer_turn(self, message, temperature):
        pass


class Positional(Talk):
    async def answer_turn(self, message, /):
        pass


class NoSchemas(Own):
    tool_schemas = "look"


class NoFunction(Own):
    tool_schemas = ({"name": "look"},)


class Twice(Own):
    tool_schemas = (SCHEMA, SCHEMA)


class GroupOfOne(Talk):
    def score_group(self, environments, completions):
        return [0.0] * len(environments)


class GroupWithoutWords(Talk):
    @classmethod
    def score_group(cls, environments):
        return [0.0] * len(environments)


def lookup(key: str) -> str:
    """Look something up.

    Args:
        key: What.
    """
    return key


@pytest.mark.parametrize(
    ("environment", "tools", "says"),
    [
        (NoAnswer, None, "tool_schemas but no answer_turn"),
        (TakesMore, None, "answer_turn needs 'temperature'; it may take, by name, message"),
        (Positional, None, "answer_turn needs 'message'; it may take, by name"),
        (NoSchemas, None, "tool_schemas is a str; expected a list"),
        (NoFunction, None, "tool_schemas has {'name': 'look'}; expected"),
        (Twice, None, "two tools are called 'look'"),
        (EnvironmentSpec(Own, tools=("look",)), None, "no method of it is a tool"),
        (GroupOfOne, None, "score_group is to be a class method"),
        (GroupWithoutWords, None, "got an unexpected keyword argument 'completions'"),
        (Own, [lookup], "leave 'lookup' out"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, environment, tools, says):
    with pytest.raises(UsageError, match=says):
        make_trainer(tmp_path, say, rows=chat_rows(), environment_factory=environment, tools=tools)
