"""The page on environments does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from plaudit.run.runfile import parse_run
from scripted import Keep, chat_rows, make_model, make_tokenizer, make_trainer, turns_of

PAGE = Path(__file__).parents[3] / "docs" / "environments.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_its_blocks_train_an_environment(tmp_path):
    names: dict = {"__name__": "page"}
    for block in blocks("python"):
        exec(block, names)
    trainer = names["train"](make_model(), make_tokenizer(), str(tmp_path))
    assert trainer.state.global_step == 1
    assert names["tool"].function(6, 7) == 42


def test_its_environment_that_speaks(tmp_path):
    names: dict = {}
    exec(next(block for block in blocks("python") if "answer_turn" in block), names)
    keep = Keep()
    said = ["old", "very old", "it is 300 years"]
    trainer = make_trainer(
        tmp_path, lambda text, index: said[turns_of(text)], rows=chat_rows(), reward_funcs=keep,
        environment_factory=names["Interview"],
    )  # fmt: skip
    trainer.train()
    assert [one["content"] for one in keep.seen[0]["completions"][0]] == [
        *("old", "In years, please.", "very old", "In years, please.", "it is 300 years"),
    ]
    assert trainer.state.log_history[0]["rewards/Interview/mean"] == 1


def test_its_run_file_is_one():
    import tomllib

    (text,) = blocks("toml")
    run = parse_run(tomllib.loads(text))
    assert [section.name for section in run.environments] == ["./my_games.py:Guess"]


def test_the_metrics_it_names_are_those_that_are_logged(tmp_path):
    from plaudit.grpo.reporting.rollout_metrics import tool_metrics
    from plaudit.types import ToolUse

    found = tool_metrics([(ToolUse("guess", 0.1), ToolUse("", 0.0, True)), (), None])
    page = PAGE.read_text(encoding="utf-8")
    assert found["tools/call_frequency"] == pytest.approx(2 / 3)
    assert found["tools/failure_frequency"] == 0.5
    for name in found:
        assert f"`{name.replace('guess', '<name>')}`" in page or f"`{name.split('/')[-1]}`" in page
