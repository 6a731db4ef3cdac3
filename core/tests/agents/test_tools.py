"""Functions that the model calls: what it is answered, in which order, how long that takes, and which tokens count."""

from __future__ import annotations

import threading

import pytest
from scripted import Keep, call, chat_rows, make_trainer, turns_of
from tool_functions import add, answers, fail, once, picture, run, slow_add


class Unprintable:
    def __str__(self):
        raise ValueError("no")


VALUES = {
    "none": None, "dict": {"a": 1}, "numbers": [1, 2], "words": ["a"], "nothing": [], "bytes": b"x",
    "half a pair": "a\ud800", "mixed": [{"type": "text", "text": "t"}, 3], "unprintable": Unprintable(),
}  # fmt: skip
GIVEN = {
    "none": "None", "dict": "{'a': 1}", "numbers": "[1, 2]", "words": "['a']", "nothing": "[]", "bytes": "b'x'",
    "half a pair": "a?", "mixed": "[{'type': 'text', 'text': 't'}, 3]",
}  # fmt: skip


def give(what: str):
    """Give something that is no text.

    Args:
        what: What.
    """
    return VALUES[what]


@pytest.mark.parametrize(
    ("said", "expected", "failures"),
    [
        (call("add", a=2, b=3), ["5"], 0),
        (call("slow_add", a=2, b=3), ["5"], 0),
        (call("add", a=1, b=1) + call("slow_add", a=2, b=2) + call("add", a=3, b=3), ["2", "4", "6"], 0),
        (call("picture", name="x"), [[{"type": "text", "text": "a picture of x"}]], 0),
        *((call("give", what=what), [expected], 0) for what, expected in GIVEN.items()),
        (call("give", what="unprintable"), ["its answer, a Unprintable, cannot be written as text: ValueError: no"], 1),
        (call("fail", why="no luck"), ["{'error': 'no luck'}"], 1),
        (call("add", a=2), ["missing 1 required positional argument"], 1),
        (call("sub", a=2), ["there is no tool 'sub'; there are: add, slow_add, fail, give, picture"], 1),
        ('<tool_call>\n{"name": "add", "arguments": {"a": 2\n</tool_call>', ["'error'"], 1),
        (call("add", a=1, b=1) + call("nothing") + call("slow_add", a=2, b=2), ["2", "no tool 'nothing'", "4"], 1),
    ],
)  # fmt: skip
def test_answers_come_in_the_order_of_the_calls_and_failures_are_told_to_the_model(tmp_path, said, expected, failures):
    seen, log, _ = run(tmp_path, once(said), [add, slow_add, fail, give, picture])
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
