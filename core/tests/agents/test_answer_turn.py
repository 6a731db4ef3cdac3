"""Environments that answer the model's turns themselves."""

from __future__ import annotations

import pytest
from plaudit import Verdict
from scripted import call, make_tokenizer, turns_of
from talking import Own, Talk, play

USER = "<|im_start|>user\n"


def test_the_dialogue_goes_on_as_long_as_it_answers(tmp_path):
    seen, trainer = play(tmp_path, Talk)
    for completion, environment in zip(seen["completions"], seen["environments"], strict=True):
        assert [message["content"] for message in completion] == ["turn 0", "more 1", "turn 1", "more 2", "turn 2"]
        assert environment.heard == [(f"turn {place}", "stop") for place in range(3)]
    assert trainer.state.log_history[0]["rewards/Talk/mean"] == 3


def test_only_the_models_tokens_are_learnt_from(tmp_path):
    seen, _ = play(tmp_path, Talk)
    tokenizer = make_tokenizer()
    (ids,) = {tuple(one) for one in seen["completion_ids"]}
    wanted = "turn 0<|im_end|>\n" + "".join(
        f"{USER}more {n}<|im_end|>\n<|im_start|>assistant\nturn {n}<|im_end|>" + ("\n" if n == 1 else "")
        for n in (1, 2)
    )
    assert tokenizer.decode(list(ids)) == wanted


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


class Blocks(Talk):
    def answer_turn(self, **given):
        self.heard.append(sorted(given))
        return [{"type": "text", "text": "two"}, {"type": "text", "text": " parts"}] if len(self.heard) < 2 else None


def test_content_blocks_are_what_a_user_says_and_everything_can_be_taken(tmp_path):
    seen, _ = play(tmp_path, Blocks)
    assert seen["completions"][0][1]["role"] == "user"
    tokenizer = make_tokenizer()
    assert f"{USER}two parts<|im_end|>" in tokenizer.decode(seen["completion_ids"][0])
    everything = ["calls", "completion_ids", "context_tokens", "finish_reason", "message"]
    assert seen["environments"][0].heard == [everything] * 2


def test_what_it_is_told_of_tokens_is_what_was_written(tmp_path):
    class Counts(Talk):
        def answer_turn(self, completion_ids, context_tokens):
            self.heard.append((completion_ids, context_tokens))
            return "more" if len(self.heard) < 3 else None

    seen, _ = play(tmp_path, Counts)
    for ids, environment in zip(seen["completion_ids"], seen["environments"], strict=True):
        prompt = environment.heard[0][1]
        for turn, before in environment.heard:
            start = before - prompt
            assert tuple(ids[start : start + len(turn)]) == turn


@pytest.mark.parametrize("most", [30, 45, 60, 61, 62, 63, 90])
def test_a_budget_that_ends_leaves_no_turn_half_answered(tmp_path, most):
    """What does not fit is dropped: the completion ends with a turn, or with an answer that filled the room."""
    seen, _ = play(tmp_path, Talk, max_completion_length=most)
    whole, _ = play(tmp_path / "whole", Talk)
    for ids, completion in zip(seen["completion_ids"], seen["completions"], strict=True):
        assert len(ids) <= most
        assert list(ids) == list(whole["completion_ids"][0][: len(ids)])
        if completion[-1]["role"] == "user":
            assert len(ids) == most


def test_changing_what_it_is_given_changes_nothing(tmp_path):
    class Rude(Own):
        async def answer_turn(self, message, calls):
            answers = await super().answer_turn(message, calls)
            message.clear()
            for one in calls:
                one.arguments.clear()
            return answers

    seen, _ = play(tmp_path, Rude, lambda text, index: "done" if turns_of(text) else call("look", where="up"))
    for completion in seen["completions"]:
        assert completion[0]["tool_calls"][0]["function"]["arguments"] == {"where": "up"}


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
