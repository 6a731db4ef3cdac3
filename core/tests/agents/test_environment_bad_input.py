"""Environments that cannot work are named before a model is loaded."""

from __future__ import annotations

import pytest
from counter import Counter, count_up
from datasets import Dataset
from plaudit.errors import UsageError
from plaudit.rollout.agent import EnvironmentSpec
from scripted import chat_rows, make_trainer


class NoReset:
    pass


class Raises:
    def __init__(self):
        raise OSError("no display")


class Untyped(Counter):
    def go(self, there):
        """Go.

        Args:
            there: Where.
        """


class Undocumented(Counter):
    def go(self, there: str) -> str:
        return there


class Needs(Counter):
    def reset(self, target):
        pass


class Lists(Counter):
    tools = ("increment", "jump")


class Text(Counter):
    tools = "increment"


class Positional(Counter):
    def reset(self, target, /):
        pass


ROUTED = {"a": Counter}


@pytest.mark.parametrize(
    ("environment", "more", "message"),
    [
        (NoReset, {}, "environment 'NoReset' has no reset"),
        (Raises, {}, "environment 'Raises' cannot be made: its __init__ failed: OSError: no display"),
        (Untyped, {}, "environment 'Untyped': tool 'go'"),
        (Undocumented, {}, "environment 'Undocumented': tool 'go' has no docstring"),
        (Needs, {"rows": chat_rows()}, "reset needs the column 'target'"),
        (Lists, {}, "environment 'Lists' has no tool 'jump'; its public methods: increment"),
        (EnvironmentSpec(Counter, tools=("reset",)), {}, "has no tool 'reset'"),
        (Text, {}, "environment 'Text': tools = 'increment'; expected a list of names"),
        (Positional, {"rows": chat_rows(target=[0] * 4)}, "reset takes 'target' by position; columns come by name"),
        (3, {}, "the environment 3 is a int"),
        ({}, {}, "environment_factory is empty"),
        (Counter, {"max_steps": -1}, "set max_steps"),
        (ROUTED, {}, "needs a column 'environment' that names one of 'a'"),
        (ROUTED, {"rows": chat_rows()}, "no column 'environment'"),
        (ROUTED, {"rows": chat_rows(2, environment=["a", "b"])}, "environment = 'b'; there are: 'a'"),
        (ROUTED, {"rows": Dataset.from_dict({"environment": ["a", None]})}, "environment = None; there are: 'a'"),
        (Counter, {"tools": [Counter().increment]}, "two tools are called 'increment'"),
        (Counter, {"rows": [{"prompt": "text"}] * 2}, "prompts are text"),
        (Counter, {"rows": []}, "train_dataset has no rows"),
        (Counter, {"tools": len}, "tools is a builtin_function_or_method; expected a list of functions"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_named_before_a_model_is_loaded(tmp_path, environment, more, message):
    with pytest.raises(UsageError, match=message):
        make_trainer(tmp_path, None, environment_factory=environment, **more)


def test_without_any_reward_the_reward_is_what_is_missing(tmp_path):
    class Scoreless(Counter):
        get_reward = None

    with pytest.raises(UsageError, match="reward_funcs is missing"):
        make_trainer(tmp_path, count_up, environment_factory=Scoreless)
