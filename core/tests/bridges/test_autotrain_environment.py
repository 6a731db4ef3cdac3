"""AITraining's environments: their rows, columns and tools are checked before a model is loaded."""

from __future__ import annotations

import asyncio

import pytest
from plaudit import UsageError
from plaudit.bridges.autotrain.environment import build_rows, episode_columns, with_tools


class Rows:
    """An environment whose dataset and signature are given."""

    def __init__(self, rows, tools=()):
        self.rows, self.tools = rows, tools

    def build_dataset(self, tokenizer):
        return self.rows

    def get_tools(self):
        return self.tools


class Needy(Rows):
    def score_episode(self, model, tokenizer, completion, case_idx, level="easy"):
        return 0.0


class Open(Rows):
    def score_episode(self, model, tokenizer, completion, **columns):
        return 0.0


def test_columns_reach_the_episode_by_name():
    assert episode_columns(Needy([]), ["prompt", "case_idx", "level", "other"]) == ("case_idx", "level")
    assert episode_columns(Needy([]), ["prompt", "case_idx"]) == ("case_idx",)
    assert episode_columns(Open([]), ["prompt", "a", "b"]) == ("a", "b", "prompt")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"prompt": "p", "level": "x"}], "requires 'case_idx', but build_dataset has no such column"),
        ([], "returned no rows"),
        ([{"question": "p", "case_idx": 0}], "no column 'prompt'"),
        (7, "returned a int"),
        ([{"prompt": "p", "case_idx": 0}, {"prompt": "p"}], "row 1 has the columns prompt; row 0 has prompt, case_idx"),
        ([{"prompt": None, "case_idx": 0}], "row 0 has the prompt None"),
        ([{"prompt": "p", "case_idx": 0, "model": "x"}], "has the column 'model'"),
    ],
)
def test_a_dataset_that_cannot_work_is_an_error(rows, says):
    with pytest.raises(UsageError, match=says):
        build_rows(Needy(rows), None)


def test_a_dataset_that_cannot_be_built_is_an_error():
    class Broken(Needy):
        def build_dataset(self, tokenizer):
            raise KeyError("cases")

    with pytest.raises(UsageError, match=r"Broken\.build_dataset failed: KeyError: 'cases'"):
        build_rows(Broken([]), None)


def test_tools_go_through_the_chat_template(model_folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tool = {"type": "function", "function": {"name": "look"}}
    rows, tools = with_tools([{"prompt": "hello"}], Open([], [tool]), tokenizer)
    assert rows == [{"prompt": [{"role": "user", "content": "hello"}]}]
    assert tools == [tool]
    assert with_tools([{"prompt": "hello"}], Open([]), tokenizer) == ([{"prompt": "hello"}], [])
    tokenizer.chat_template = None
    with pytest.raises(UsageError, match="no chat template"):
        with_tools([{"prompt": "hello"}], Open([], [tool]), tokenizer)


def look(place: str) -> str:
    """Look somewhere.

    Args:
        place: where
    """
    return place


def undocumented(place):
    return place


@pytest.mark.parametrize(
    ("tools", "found"),
    [
        ([look], "look"),
        ("look", "it returned 'look'"),
        ([undocumented], "get_tools failed: DocstringParsingException"),
        ([3], "expected tool definitions"),
    ],
)
def test_tools_may_be_documented_functions(tools, found, model_folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    if found == "look":
        (tool,) = with_tools([{"prompt": "hello"}], Open([], tools), tokenizer)[1]
        assert tool["function"]["name"] == found
    else:
        with pytest.raises(UsageError, match=found):
            with_tools([{"prompt": "hello"}], Open([], tools), tokenizer)


class WithoutModel(Rows):
    def score_episode(self, completion, case_idx):
        return 0.0


class ByPlace(Rows):
    def score_episode(self, model, tokenizer, completion, /, case_idx=0):
        return 0.0


@pytest.mark.parametrize("kind", [WithoutModel, ByPlace])
def test_an_episode_that_cannot_be_called_is_refused(kind):
    with pytest.raises(UsageError, match="score_episode takes no 'model'; it is called with model, tokenizer"):
        episode_columns(kind([]), ["prompt", "case_idx"])


async def test_an_episode_may_be_a_coroutine(model_folder):
    from plaudit.bridges.autotrain.episodes import Episodes
    from plaudit.bridges.autotrain.policy import EpisodeBatcher
    from transformers import AutoTokenizer

    class Later(Rows):
        async def score_episode(self, model, tokenizer, completion, case_idx):
            await asyncio.sleep(0)
            return case_idx / 2

    episodes = Episodes(Later([]), AutoTokenizer.from_pretrained(model_folder), ("case_idx",))
    episodes.batcher = EpisodeBatcher(None)
    assert await asyncio.to_thread(episodes._score, "p", "c", (1,), 0, {"case_idx": [1]}) == 0.5
