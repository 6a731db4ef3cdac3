"""Every recipe passes the preflight as it is written, and trains when it is made small."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from plaudit.cli import main
from shrinking import ON_A_CPU, smaller, write_rows

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "examples" / "recipes").glob("*.toml"))
NAMES = {"math", "code", "format", "agents", "multi_task", "small_gpu", "large_gpu"}


def test_there_is_one_for_each_purpose_and_each_says_what_it_is_for():
    assert {path.stem for path in RECIPES} == NAMES
    for path in RECIPES:
        assert path.read_text().startswith("# ")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_everything_but_data_and_model_is_right_as_written(path, work_folder):
    """Names, options, types and the checks between fields, GPU settings included."""
    from plaudit.run.configuring import make_config
    from plaudit.run.peft_config import make_peft_config
    from plaudit.run.rewards import load_rewards
    from plaudit.run.runfile import parse_run
    from plaudit.run.stages import check_stages, stage_runs

    table = tomllib.loads(path.read_text(encoding="utf-8"))
    table["config"]["use_cpu"] = True
    run = parse_run(table)
    check_stages(run)
    make_peft_config(run.model.peft)
    for one in stage_runs(run) or [run]:
        config = make_config(one)
        assert load_rewards(one) or one.environments
        given = {**table["config"], **one.config}
        assert {name: getattr(config, name) for name in ("num_generations", "bf16", "use_vllm")} == {
            "num_generations": given["num_generations"], "bf16": True, "use_vllm": given.get("use_vllm", False)
        }  # fmt: skip
    assert set(ON_A_CPU) >= {name for name in given if name in ("bf16", "use_vllm", "optim")}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_trains_when_it_is_made_small(path, work_folder, chat_model, capsys):
    changes = smaller(path, chat_model, write_rows(work_folder))
    assert main(["train", str(path.relative_to(ROOT)), *changes]) == 0, capsys.readouterr().err
    metrics = [json.loads(line) for line in (work_folder / "run" / "metrics.jsonl").read_text().splitlines()]
    names = {name for line in metrics for name in line}
    for reward in EXPECTED[path.stem]:
        assert f"rewards/{reward}/mean" in names, sorted(names)
    assert list((work_folder / "run").rglob("report.md"))


@pytest.mark.slow
def test_the_small_recipe_trains_with_its_own_optimizer(work_folder, chat_model, capsys):
    pytest.importorskip("bitsandbytes")
    (recipe,) = [path for path in RECIPES if path.stem == "small_gpu"]
    changes = [*smaller(recipe, chat_model, write_rows(work_folder)), "--set", "config.optim=adamw_8bit"]
    assert main(["train", str(recipe), *changes]) == 0, capsys.readouterr().err
    assert 'optim = "adamw_8bit"' in (work_folder / "run" / "run.toml").read_text()


def test_the_command_of_the_large_recipe_estimates_what_fits(work_folder, chat_model, capsys):
    (recipe,) = [path for path in RECIPES if path.stem == "large_gpu"]
    (command,) = re.findall(r"^#   plaudit (vllm estimate .*?)  ", recipe.read_text(), re.MULTILINE)
    changes = smaller(recipe, chat_model, write_rows(work_folder))
    assert main([*command.split(), *changes]) == 0, capsys.readouterr().err
    assert "vllm_gpu_memory_utilization" in capsys.readouterr().out


EXPECTED = {
    "math": ("math", "incremental_format", "think_answer_format", "soft_overlong"),
    "code": ("code", "one_code_block", "soft_overlong"),
    "format": ("incremental_format", "xml_count", "whole_format", "math"),
    "agents": ("SqliteQuestions", "used_tools"),
    "multi_task": ("math", "code", "reasoning_gym:gcd", "think_answer_format", "incremental_format"),
    "small_gpu": ("math", "incremental_format", "think_answer_format"),
    "large_gpu": ("math", "incremental_format", "think_answer_format", "soft_overlong"),
}


THINKING = "<think>3 + 4 = 7</think>\n<answer>7</answer>"
REASONING = "<reasoning>\n3 + 4 = 7\n</reasoning>\n<answer>\n7\n</answer>"
PROGRAM = "```python\ndef add(x):\n    return x + 1\n```"
WRITTEN = {
    "prompt": "…",
    "answer": "7",
    "tests": {"mode": "assert", "tests": ["assert add(0) == 1", "assert add(1) == 2"]},
}
# (recipe, task, a good completion, one that is worse only in part, one that is bad): rewards fall from one to the next.
PAID = [
    ("math", None, (THINKING, 3.0), (THINKING.replace(">7<", ">8<"), 1.0), ("It is eight.", 0.0)),
    ("small_gpu", None, (THINKING, 3.0), ("7", 2.0), ("<think>8", 0.125)),
    ("large_gpu", None, (THINKING, 3.0), (THINKING.replace(">7<", ">8<"), 1.0), ("It is eight.", 0.0)),
    ("format", None, (REASONING, 4.5), (REASONING.replace("\n7\n", "\n8\n"), 2.5), ("<answer>", 0.375)),
    ("code", None, (PROGRAM, 2.3), (PROGRAM.replace("x + 1", "2 * x + 1"), 1.3), ("def add", 0.0)),
    ("multi_task", "math", (THINKING, 3.0), ("7", 2.0), ("8", 0.0)),
    ("multi_task", "code", (f"<think>x</think><answer>\n{PROGRAM}\n</answer>", 3.0), (PROGRAM, 2.0), ("8", 0.0)),
]


@pytest.mark.parametrize(
    ("name", "task", "good", "fair", "bad"), PAID, ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_rewards_pay_what_the_recipe_means_to_pay(name, task, good, fair, bad, work_folder):
    for completion, expected in (good, fair, bad):
        assert paid(name, task, completion) == pytest.approx(expected), completion


def paid(name: str, task: str | None, completion: str) -> float:
    """The weighted sum that a recipe's rewards give one completion of a conversation at the start of the run."""
    from plaudit.run.rewards import load_rewards
    from plaudit.run.runfile import load_run_file
    from plaudit.scoring.scorer import Scorer
    from plaudit.types import Rollout, Row

    columns: dict[str, Any] = {**WRITTEN, "task": task}
    specs = load_rewards(load_run_file(ROOT / "examples" / "recipes" / f"{name}.toml"))
    row = Row([{"role": "user", "content": "…"}], columns)
    with Scorer(specs) as scorer, scorer.open([row], num_generations=1) as session:
        session.submit(Rollout(0, row, [{"role": "assistant", "content": completion}], completion_ids=[5] * 9))
        table = session.result()
    (scores,) = table.scores
    return sum(weight * score for weight, score in zip(table.weights, scores, strict=True) if score is not None)
