"""Several environments in one run: rows choose, and see only their own."""

from __future__ import annotations

import asyncio

import pytest
from counter import Counter
from datasets import Dataset
from scripted import Keep, call, make_trainer, turns_of


class Words:
    """Another environment, with asynchronous parts and a listed tool."""

    tools = ("spell",)

    def __init__(self):
        self.closed = 0

    async def reset(self, **row):
        self.row = row
        return "Spell it."

    async def spell(self, word: str) -> str:
        """Spell a word.

        Args:
            word: The word.
        """
        await asyncio.sleep(0)
        return "-".join(word)

    def helper(self):
        return "no tool: it is not listed"

    async def get_reward(self):
        return 0.5

    async def close(self):
        self.closed += 1


def test_rows_choose_among_several_and_see_only_their_own_tools(tmp_path):
    def lookup(key: str) -> str:
        """Look something up.

        Args:
            key: What.
        """
        return f"entry {key}"

    def say(text, index):
        if turns_of(text):
            return "done"
        head = text.split("<|im_end|>")[0]
        assert ('"name": "increment"' in head) != ('"name": "spell"' in head)
        assert '"name": "lookup"' in head
        assert "helper" not in head
        return call("lookup", key="k") + call("spell", word="ab") + call("increment", step=3)

    keep = Keep()
    rows = Dataset.from_dict({"environment": ["counter", "words"] * 4})
    trainer = make_trainer(
        tmp_path, say, rows=rows, reward_funcs=keep, environment_factory={"counter": Counter, "words": Words},
        tools=[lookup], max_steps=4,
    )  # fmt: skip
    trainer.train()
    kinds = set()
    for seen in keep.seen:
        for name, environment, completion in zip(
            seen["environment"], seen["environments"], seen["completions"], strict=True
        ):
            kinds.add(name)
            first, spelt, counted = [message["content"] for message in completion[1:4]]
            assert first == "entry k"
            if name == "words":
                assert type(environment) is Words
                assert "environment" not in environment.row
                assert (spelt, "no tool 'increment'" in counted) == ("a-b", True)
            else:
                assert ("no tool 'spell'" in spelt, counted) == (True, "3")
    assert kinds == {"counter", "words"}
    assert all(environment.closed == 1 for seen in keep.seen for environment in seen["environments"])
    for log in trainer.state.log_history[:4]:
        assert log.get("rewards/Words/mean", 0.5) == 0.5
        assert log.get("rewards/Counter/mean", 1.0) == 1.0


@pytest.mark.parametrize("table", [False, True])
def test_rows_without_a_prompt_beside_rows_with_one(tmp_path, table):
    """As a table has them in which rows of two kinds were put together."""
    rows = [
        {"environment": "counter", "prompt": None},
        {"environment": "words", "prompt": [{"role": "user", "content": "Now: "}]},
    ] * 2
    keep = Keep()
    make_trainer(
        tmp_path, lambda text, index: "done", rows=Dataset.from_list(rows) if table else rows, reward_funcs=keep,
        environment_factory={"counter": Counter, "words": Words}, max_steps=2,
    ).train()  # fmt: skip
    said = {
        (name, prompt[-1]["content"])
        for seen in keep.seen
        for name, prompt in zip(seen["environment"], seen["prompts"], strict=True)
    }
    assert said == {("counter", "Count to 3."), ("words", "Now: Spell it.")}
