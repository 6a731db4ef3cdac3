"""Functions that the model calls: what it is answered, in which order, how long that takes, and which tokens count."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from plaudit.errors import UsageError
from plaudit.rollout.agent import ToolSpec
from plaudit.rollout.agent.turns import ToolError
from scripted import Keep, call, chat_rows, make_trainer, turns_of


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.

    Returns:
        The sum.
    """
    return a + b


async def slow_add(a: int, b: int) -> int:
    """Add two numbers, later.

    Args:
        a: The first.
        b: The second.
    """
    await asyncio.sleep(0.1)
    return a + b


def fail(why: str) -> str:
    """Fail.

    Args:
        why: The reason.
    """
    raise ValueError(why)


def hang(seconds: float) -> str:
    """Wait.

    Args:
        seconds: How long.
    """
    time.sleep(seconds)
    return "woke"


def picture(name: str) -> list:
    """Look at something.

    Args:
        name: Of what.
    """
    return [{"type": "text", "text": f"a picture of {name}"}]


def once(text):
    """A script that makes calls in the first turn and ends in the second."""
    return lambda so_far, index: "done" if turns_of(so_far) else text(index) if callable(text) else text


def run(tmp_path, say, tools, **more):
    keep = Keep()
    trainer = make_trainer(tmp_path, say, rows=chat_rows(), reward_funcs=keep, tools=tools, **more)
    trainer.train()
    return keep.seen[0], trainer.state.log_history[0], trainer


def answers(completion):
    return [message["content"] for message in completion if message["role"] == "tool"]


@pytest.mark.parametrize(
    ("said", "expected", "failures"),
    [
        (call("add", a=2, b=3), ["5"], 0),
        (call("slow_add", a=2, b=3), ["5"], 0),
        (call("add", a=1, b=1) + call("slow_add", a=2, b=2) + call("add", a=3, b=3), ["2", "4", "6"], 0),
        (call("picture", name="x"), [[{"type": "text", "text": "a picture of x"}]], 0),
        (call("fail", why="no luck"), ["{'error': 'no luck'}"], 1),
        (call("add", a=2), ["missing 1 required positional argument"], 1),
        (call("sub", a=2), ["there is no tool 'sub'; there are: add, slow_add, fail, picture"], 1),
        ('<tool_call>\n{"name": "add", "arguments": {"a": 2\n</tool_call>', ["'error'"], 1),
        (call("add", a=1, b=1) + call("nothing") + call("slow_add", a=2, b=2), ["2", "no tool 'nothing'", "4"], 1),
    ],
)  # fmt: skip
def test_answers_come_in_the_order_of_the_calls_and_failures_are_told_to_the_model(tmp_path, said, expected, failures):
    seen, log, _ = run(tmp_path, once(said), [add, slow_add, fail, picture])
    calls = len(expected)
    for completion in seen["completions"]:
        found = answers(completion)
        assert len(found) == calls
        for one, wanted in zip(found, expected, strict=True):
            assert one == wanted if isinstance(wanted, list) else wanted in one
        assert completion[-1] == {"role": "assistant", "content": "done"}
    assert log["tools/call_frequency"] == calls
    assert log["tools/failure_frequency"] == pytest.approx(failures / calls)
    assert seen["environments"] is None if "environments" in seen else True


def test_the_mask_is_exact_and_nothing_is_tokenised_again(tmp_path):
    """Dialogues of random lengths: ids are those that were generated, with the tools' between them."""
    turns: dict[int, list[tuple[int, ...]]] = {}
    keep = Keep()
    trainer = make_trainer(
        tmp_path,
        lambda text, index: call("add", a=index, b=turns_of(text)) if turns_of(text) <= index else f"end {index}",
        rows=chat_rows(), reward_funcs=keep, tools=[add], max_completion_length=1500,
    )  # fmt: skip
    generator = trainer.source.collector.writer.generator
    generate = generator.generate

    def noting(requests, sampling):
        for made in generate(requests, sampling):
            turns.setdefault(made.index, []).append(made.completion_ids)
            yield made

    generator.generate = noting
    rollouts = {}
    record = trainer.source.collected
    trainer.source.collected = lambda batch, mode: (
        rollouts.update({one.index: one for one in batch.rollouts}) or record(batch, mode)
    )
    trainer.train()
    for index, rollout in rollouts.items():
        ids, mask, logprobs = rollout.completion_ids, rollout.tool_mask, rollout.logprobs
        own = tuple(token for token, mark in zip(ids, mask, strict=True) if mark)
        assert own == tuple(token for turn in turns[index] for token in turn)
        assert len(turns[index]) == index + 2
        assert all(value == (-0.5 if mark else 0.0) for value, mark in zip(logprobs, mask, strict=True))
        text = generator.tokenizer.decode(list(rollout.prompt_ids + ids))
        assert tuple(generator.tokenizer(text=text)["input_ids"]) == rollout.prompt_ids + ids
        assert len(rollout.tool_uses) == index + 1
    lengths = [sum(rollout.tool_mask) for rollout in rollouts.values()]
    log = trainer.state.log_history[0]
    assert log["completions/mean_length"] == pytest.approx(sum(lengths) / 8)
    assert log["num_tokens"] == sum(lengths) + sum(len(rollout.prompt_ids) for rollout in rollouts.values())


def test_all_calls_of_all_rollouts_run_at_once(tmp_path):
    seen, log, trainer = run(tmp_path, once(call("slow_add", a=1, b=2)), [slow_add])
    assert log["tools/slow_add/latency_s"] == pytest.approx(0.1, abs=0.08)
    assert all(answers(completion) == ["3"] for completion in seen["completions"])
    assert trainer.source.collector.writer.generator.rounds == [list(range(8))] * 2


def test_a_call_starts_while_the_others_still_generate(tmp_path):
    called = threading.Event()

    def ring() -> str:
        """Ring."""
        called.set()
        return "rang"

    heard = []

    def before(index):
        if index == 7:
            heard.append(called.wait(5))

    make_trainer(
        tmp_path, once(lambda index: call("ring")), before=before, rows=chat_rows(), reward_funcs=Keep(), tools=[ring]
    ).train()
    assert heard[0]


@pytest.mark.parametrize(("limit", "turns"), [(None, 5), (0, 1), (1, 2), (3, 4)])
def test_max_tool_calling_iterations(tmp_path, limit, turns):
    seen, _, _ = run(
        tmp_path, lambda text, index: call("add", a=1, b=1) if turns_of(text) < 4 else "end", [add],
        max_tool_calling_iterations=limit, max_completion_length=1000,
    )  # fmt: skip
    assert {sum(m["role"] == "assistant" for m in completion) for completion in seen["completions"]} == {turns}


def test_an_answer_that_does_not_fit_is_dropped_and_ends_the_rollout(tmp_path):
    def long(size: int) -> str:
        """Much text.

        Args:
            size: How much.
        """
        return "x" * size

    seen, log, _ = run(tmp_path, once(lambda index: call("long", size=10 if index else 500)), [long])
    first, *others = seen["completions"]
    assert [message["role"] for message in first] == ["assistant"]
    assert all([message["role"] for message in one] == ["assistant", "tool", "assistant"] for one in others)
    assert log["completions/clipped_ratio"] == 0
    assert log["tools/call_frequency"] == 1


def test_a_turn_is_cut_to_what_is_left_of_the_completion_and_the_context(tmp_path):
    def say(text, index):
        return "y" * 600 if turns_of(text) else call("add", a=1, b=1)

    seen, log, _ = run(tmp_path / "budget", say, [add], max_completion_length=200)
    assert {len(ids) for ids in seen["completion_ids"]} == {200}
    assert log["completions/clipped_ratio"] == 1
    seen, log, trainer = run(tmp_path / "context", say, [add], max_completion_length=300, context=620)
    assert all(len(ids) <= 300 for ids in seen["completion_ids"])
    assert trainer.state.log_history[0]["completions/clipped_ratio"] == 1


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


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([untyped], "untyped"),
        ([undocumented], "'undocumented' has no docstring"),
        ([add, add], "two tools are called 'add'"),
        (["add"], "the tool 'add' is a str; expected a function"),
    ],
)
def test_a_tool_that_cannot_be_one_is_named_before_anything_is_loaded(tmp_path, tools, message):
    with pytest.raises(UsageError, match=message):
        make_trainer(tmp_path, None, rows=chat_rows(), reward_funcs=Keep(), tools=tools)


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


def test_a_task_has_a_budget_of_its_own(tmp_path):
    keep = Keep()
    rows = chat_rows(2, task=["short", "long"])
    trainer = make_trainer(
        tmp_path, once(lambda index: "y" * 20 + call("add", a=1, b=2)), rows=rows, reward_funcs=keep, tools=[add],
        task_max_completion_length={"short": 90}, max_completion_length=200,
    )  # fmt: skip
    trainer.train()
    lengths = dict(zip(keep.seen[0]["task"], map(len, keep.seen[0]["completion_ids"]), strict=True))
    log = trainer.state.log_history[0]
    turns = {
        task: [message["role"] for message in one]
        for task, one in zip(keep.seen[0]["task"], keep.seen[0]["completions"], strict=True)
    }
    assert turns == {"short": ["assistant"], "long": ["assistant", "tool", "assistant"]}
    assert lengths["short"] <= 90 < lengths["long"]
    assert log["tasks/short/completions/clipped_ratio"] == log["tasks/long/completions/clipped_ratio"] == 0
    trainer = make_trainer(
        tmp_path, lambda text, index: "y" * 300, rows=rows, reward_funcs=keep, tools=[add],
        task_max_completion_length={"short": 90}, max_completion_length=200,
    )  # fmt: skip
    trainer.train()
    lengths = dict(zip(keep.seen[1]["task"], map(len, keep.seen[1]["completion_ids"]), strict=True))
    assert lengths == {"short": 90, "long": 200}
    assert trainer.state.log_history[0]["tasks/short/completions/clipped_ratio"] == 1
