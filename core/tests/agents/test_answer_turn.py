"""Environments that answer the model's turns themselves."""

from __future__ import annotations

import asyncio

import pytest
from plaudit import Verdict
from plaudit.errors import UsageError
from plaudit.rollout.agent import EnvironmentSpec
from plaudit.rollout.agent.turns import ToolError
from scripted import Keep, call, chat_rows, make_tokenizer, make_trainer, turns_of

USER = "<|im_start|>user\n"
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
    return keep.seen[0], trainer


def test_the_dialogue_goes_on_as_long_as_it_answers(tmp_path):
    seen, trainer = play(tmp_path, Talk)
    for completion, environment in zip(seen["completions"], seen["environments"], strict=True):
        assert [message["content"] for message in completion] == ["turn 0", "more 1", "turn 1", "more 2", "turn 2"]
        assert environment.heard == [(f"turn {place}", "stop") for place in range(3)]
    assert trainer.state.log_history[0]["rewards/Talk/mean"] == 3


def test_only_the_models_tokens_are_learnt_from(tmp_path):
    _, trainer = play(tmp_path, Talk)
    tokenizer = make_tokenizer()
    rollouts = trainer.source.collector.writer
    seen, _ = play(tmp_path / "again", Talk)
    (ids,) = {tuple(one) for one in seen["completion_ids"]}
    wanted = "turn 0<|im_end|>\n" + "".join(
        f"{USER}more {n}<|im_end|>\n<|im_start|>assistant\nturn {n}<|im_end|>" + ("\n" if n == 1 else "")
        for n in (1, 2)
    )
    assert tokenizer.decode(list(ids)) == wanted
    assert rollouts is not None


@pytest.mark.parametrize(("limit", "turns"), [(0, 1), (1, 2), (5, 3)])
def test_it_hears_the_last_turn_where_rounds_are_limited(tmp_path, limit, turns):
    seen, _ = play(tmp_path, Talk, max_tool_calling_iterations=limit)
    assert {len(one.heard) for one in seen["environments"]} == {turns}
    assert {len(one) for one in seen["completions"]} == {2 * turns - 1}


def test_it_hears_a_turn_that_was_cut_off(tmp_path):
    seen, _ = play(tmp_path, Talk, talk=lambda text, index: "x" * 50, max_completion_length=20)
    assert {tuple(one.heard) for one in seen["environments"]} == {(("x" * 20, "length"),)}


def test_calls_of_tools_that_are_methods_are_run_and_other_turns_answered(tmp_path):
    class Both(Talk):
        def add(self, number: int) -> int:
            """Add.

            Args:
                number: What.
            """
            return number + 1

    seen, trainer = play(tmp_path, Both, lambda text, index: call("add", number=1) if not turns_of(text) else "so")
    first = seen["completions"][0]
    assert [one["role"] for one in first] == [
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert (first[1]["content"], first[3]["content"]) == ("2", "more 1")
    assert trainer.state.log_history[0]["tools/call_frequency"] == 1


class Own(Talk):
    """Its tools are schemas: it answers their calls."""

    tool_schemas = (SCHEMA,)

    async def answer_turn(self, message, calls):
        self.heard.append([(one.name, one.arguments, one.error is None) for one in calls])
        if not calls:
            return None
        return [{"role": "tool", "tool_call_id": one.id, "name": one.name, "content": "dark"} for one in calls]


def test_calls_of_tools_that_are_schemas_are_answered_by_it(tmp_path):
    def talk(text, index):
        assert '"name": "look"' in text
        broken = "<tool_call>\n{not json}\n</tool_call>"
        return ["done", call("look", where="up"), broken][index % 3] if not turns_of(text) else "done"

    seen, trainer = play(tmp_path, Own, talk)
    by_place = [one.heard for one in seen["environments"]]
    assert by_place[0] == [[]]
    assert by_place[1] == [[("look", {"where": "up"}, True)], []]
    assert [one[2] for one in by_place[2][0]] == [False]
    log = trainer.state.log_history[0]
    assert log["tools/call_frequency"] == pytest.approx(5 / 8)
    assert log["tools/failure_frequency"] == pytest.approx(2 / 5)


class Fails(Talk):
    async def answer_turn(self, message):
        if message["content"] == "turn 0":
            raise RuntimeError("no more")
        return


class Wrong(Talk):
    def answer_turn(self, message):
        return [1]


@pytest.mark.parametrize(("environment", "said"), [(Fails, "no more"), (Wrong, "expected text, a list of messages")])
def test_an_answer_that_fails_gives_the_rollout_up(tmp_path, environment, said, caplog):
    _, trainer = play(tmp_path, environment)
    assert said in caplog.text
    assert "rewards/Fails/mean" not in trainer.state.log_history[0]
    with pytest.raises(ToolError, match="no more"):
        play(tmp_path / "raise", EnvironmentSpec(Fails, on_error="raise"))


class NoAnswer:
    tool_schemas = (SCHEMA,)

    def reset(self):
        pass


class TakesMore(Talk):
    async def answer_turn(self, message, temperature):
        pass


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
        (TakesMore, None, "answer_turn needs 'temperature'"),
        (Own, [lookup], "leave 'lookup' out"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, environment, tools, says):
    with pytest.raises(UsageError, match=says):
        make_trainer(tmp_path, say, rows=chat_rows(), environment_factory=environment, tools=tools)


class Relative(Talk):
    """Its reward compares the rollouts of a group."""

    asked: list

    @classmethod
    async def score_group(cls, environments, completions):
        cls.asked.append((len(environments), list(completions)))
        return [Verdict(float(place), metrics={"heard": len(one.heard)}) for place, one in enumerate(environments)]


def test_a_group_may_be_scored_at_once(tmp_path):
    Relative.asked = []
    _, trainer = play(tmp_path, Relative)
    assert Relative.asked == [(4, ["turn 2"] * 4)] * 2
    log = trainer.state.log_history[0]
    assert log["rewards/Relative/mean"] == 1.5
    assert log["Relative/heard"] == 3
