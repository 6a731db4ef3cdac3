"""Tools that fail, hang or cannot be tools."""

from __future__ import annotations

import functools
import time

import pytest
from plaudit.errors import UsageError
from plaudit.rollout.agent import ToolSpec
from plaudit.rollout.agent.turns import ToolError
from scripted import Keep, call, chat_rows, make_trainer
from tool_functions import add, answers, fail, hang, once, run


@pytest.mark.parametrize("on_error", ["answer", "abort", "raise"])
def test_the_policy_of_a_tool_that_fails(tmp_path, on_error):
    say = once(lambda index: call("fail", why="broken") if index == 2 else "fine")
    tools = [ToolSpec(fail, on_error=on_error)]
    if on_error == "raise":
        with pytest.raises(ToolError, match=r"'fail' failed: ValueError: broken"):
            run(tmp_path, say, tools)
        return
    seen, log, _ = run(tmp_path, say, tools)
    assert len(seen["completions"]) == (8 if on_error == "answer" else 7)
    assert log["rewards/unscored"] == (0 if on_error == "answer" else 1)


def test_a_call_that_hangs_is_a_failure_when_its_time_is_up(tmp_path):
    started = time.monotonic()
    seen, log, _ = run(
        tmp_path, once(lambda index: call("hang", seconds=30 if index == 1 else 0)), [ToolSpec(hang, timeout_s=0.3)]
    )
    assert time.monotonic() - started < 20
    found = [answers(completion)[0] for completion in seen["completions"]]
    assert "timeout_s = 0.3" in found[1]
    assert found[:1] + found[2:] == ["woke"] * 7
    assert log["tools/hang/failure_total"] == 1


def test_a_call_that_lost_its_connection_is_made_again(tmp_path):
    tries = []

    async def fetch(key: str) -> str:
        """Fetch.

        Args:
            key: What.
        """
        tries.append(key)
        if tries.count(key) == 1:
            raise ConnectionError("reset by peer")
        return "found"

    seen, log, _ = run(
        tmp_path, once(lambda index: call("fetch", key=str(index))), [ToolSpec(fetch, retries=1, backoff_s=0.01)]
    )
    assert all(answers(completion) == ["found"] for completion in seen["completions"])
    assert len(tries) == 16
    assert log["tools/failure_frequency"] == 0


def untyped(a):
    """Without a type.

    Args:
        a: Something.
    """


def undocumented(a: int) -> int:
    return a


def yielding(a: int):
    """Say it in parts.

    Args:
        a: What.
    """
    yield a


async def yielding_later(a: int):
    """Say it in parts.

    Args:
        a: What.
    """
    yield a


class Callable:
    """A number."""

    def __call__(self, a: int) -> int:
        """Call it."""
        return a


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([untyped], "untyped"),
        ([undocumented], "'undocumented' has no docstring"),
        ([add, add], "two tools are called 'add'"),
        ([yielding], "'yielding' yields; expected a function that returns"),
        ([yielding_later], "'yielding_later' yields"),
        ([functools.partial(add, b=1)], "'partial' is a partial; expected a function"),
        ([Callable], "'Callable' is a class; expected a function"),
        ([Callable()], "'Callable' is a Callable; expected a function"),
        ([len], "cannot be given by name"),
        (["add"], "the tool 'add' is a str; expected a function"),
    ],
)
def test_a_tool_that_cannot_be_one_is_named_before_anything_is_loaded(tmp_path, tools, message):
    with pytest.raises(UsageError, match=message):
        make_trainer(tmp_path, None, rows=chat_rows(), reward_funcs=Keep(), tools=tools)


@pytest.mark.parametrize("prompt", [None, []])
def test_a_prompt_that_is_none_is_named(tmp_path, prompt):
    with pytest.raises(UsageError, match=r"train_dataset: prompts are (None|\[\]), but tools and environments need"):
        make_trainer(tmp_path, None, rows=[{"prompt": prompt}] * 2, reward_funcs=Keep(), tools=[add])


def test_prompts_must_be_conversations_and_the_template_must_carry_tools(tmp_path):
    with pytest.raises(UsageError, match="prompts are text"):
        make_trainer(tmp_path, None, rows=[{"prompt": "a"}] * 2, reward_funcs=Keep(), tools=[add])
    with pytest.raises(UsageError, match="cannot carry"):
        make_trainer(
            tmp_path, None, rows=chat_rows(), reward_funcs=Keep(), tools=[add],
            template="{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
        )  # fmt: skip


@pytest.mark.parametrize("wrong", [{"timeout_s": -1}, {"retries": -1}, {"on_error": "ignore"}])
def test_a_policy_that_cannot_be_is_refused(wrong):
    with pytest.raises(UsageError, match=f"tool 'add': .*{next(iter(wrong))}"):
        ToolSpec(add, **wrong)
