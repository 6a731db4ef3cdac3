"""The guide: its blocks run in the order in which they stand, with a tiny model in place of the one that it names."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from plaudit.cli import main
from plaudit.run.health import CHECKS, of_rewards, of_training

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
PAGES = ("index", "in-python", "watching", "after-training")
MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
BLOCK = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL)
SMALL = ("max_steps=1", "max_completion_length=16", "save_steps=1", "use_cpu=true")


@dataclasses.dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    body: str
    before: str


def blocks_of(page: str) -> list[Block]:
    text = (GUIDE / f"{page}.md").read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    assert len(found) * 2 == len(re.findall(r"^```", text, re.MULTILINE)), "a code block without a language"
    return [Block(m["language"], m["title"], m["body"], text[: m.start()]) for m in found]


def test_every_block_runs_in_order(work_folder, chat_model, capsys):
    for block in [block for page in PAGES for block in blocks_of(page)]:
        run_block(dataclasses.replace(block, body=shrunk(block.body, chat_model)), work_folder)
    compared = [json.loads(line) for line in (work_folder / "compared.jsonl").read_text().splitlines()]
    assert {row["model"] for row in compared} == {str(chat_model), "production"}
    assert (work_folder / "runs" / "shop" / "report.md").exists()
    printed = capsys.readouterr().out
    for said in ("price: 1 (compared by value)", "incremental_format: 0.25", "100.0% of 4 clear cases right"):
        assert said in printed
    assert attacks_held(printed) >= 8


def shrunk(body: str, model: Path) -> str:
    """The tiny model and, in Python, one step of short completions on a CPU."""
    body = body.replace(MODEL, str(model)).replace("max_steps=200,", "max_steps=1, use_cpu=True,")
    return body.replace("max_completion_length=256,", "max_completion_length=16,")


def attacks_held(printed: str) -> int:
    """How many attacks the audit tried; each must have been held."""
    lines = printed.partition("\nattack ")[2].partition("\n./rewards.py:price")[0].splitlines()[1:]
    counts = [line.split()[-2:] for line in lines]
    assert all(tried == held for tried, held in counts)
    return sum(int(tried) for tried, _ in counts)


def run_block(block: Block, folder: Path) -> None:
    if block.title:
        (folder / block.title).write_text(block.body, encoding="utf-8")
    elif block.language == "python":
        subprocess.run([sys.executable, "-c", block.body], cwd=folder, check=True)
    elif block.language == "toml":
        check_sections(tomllib.loads(block.body), folder)
    elif block.language == "sh":
        for line in block.body.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "plaudit"
            if arguments[0] == "train":
                arguments += [part for value in SMALL for part in ("--set", f"config.{value}")]
            assert main(arguments) == 0, line
    else:
        assert block.language == "bash", block.language
        assert "*Not run here" in block.before.rsplit("```", 1)[-1]


def check_sections(sections: dict, folder: Path) -> None:
    """Sections beside those of the guide's run file pass the preflight."""
    from plaudit.run.preflight import prepare_run
    from plaudit.run.runfile import parse_run
    from plaudit.run.stages import check_stages, stage_runs

    table = tomllib.loads((folder / "run.toml").read_text(encoding="utf-8"))
    if "canary" in sections:
        (rows,) = [block for block in blocks_of("watching") if block.title]
        (folder / "canary.jsonl").write_text(rows.body, encoding="utf-8")
    table = {**table, **sections, "config": {**table["config"], "use_cpu": True}}
    run = parse_run(table)
    check_stages(run)
    for one in stage_runs(run) or [run]:
        prepare_run(dataclasses.replace(one, model=run.model))


def table_rows(page: str, first: str) -> list[list[str]]:
    """The cells of the table whose first heading is `first`, a list a row."""
    lines = (GUIDE / f"{page}.md").read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("| ").split(" | ")])
    return rows


# What each warning's row must say, beside its name: the thresholds in the code.
THRESHOLDS = {
    "reward_std": [of_rewards.LOW_STD],
    "reward_stuck": [2 * of_rewards.WINDOW],
    "slow_steps": [of_training.SLOW_S],
    "format_ignored": [of_rewards.LOW_FORMAT, of_rewards.WINDOW],
    "high_kl": [of_training.HIGH_KL],
    "entropy_collapse": [of_training.COLLAPSED_ENTROPY, of_training.COLLAPSED_SHARE],
    "clipped_completions": [of_training.CLIPPED],
    "dominant_reward": [of_rewards.DOMINANT],
    "constant_reward": [of_rewards.WINDOW],
    "reward_hacking": [of_rewards.CANARY_SLACK, of_rewards.HELDOUT_FALL],
    "high_learning_rate": [int(of_training.GRADIENT_JUMP)],
    "unscored": [of_rewards.UNSCORED_SHARE],
}


def test_the_table_of_warnings_is_that_of_the_code():
    rows = {cells[0].strip("`"): cells[1] for cells in table_rows("watching", "name")}
    assert list(rows) == list(CHECKS)
    for name, thresholds in THRESHOLDS.items():
        numbers = re.findall(r"\d+(?:\.\d+)?", rows[name])
        assert {f"{value:g}" for value in thresholds} <= set(numbers), name


def test_the_table_of_warnings_names_the_settings_that_the_advice_names():
    rows = {cells[0].strip("`"): " ".join(cells[1:]) for cells in table_rows("watching", "name")}
    for name, check in CHECKS.items():
        advised = set(re.findall(r"[a-z]+(?:_[a-z]+)+", inspect.getsource(check))) & known_names()
        assert sorted(word for word in advised if word not in rows[name]) == [], name


def known_names() -> set[str]:
    """Fields of the configuration, and everything that is found by name."""
    from plaudit.grpo.config import GRPOConfig
    from plaudit.plugins.registry import list_plugins

    return {field.name for field in dataclasses.fields(GRPOConfig)} | {plugin.name for plugin in list_plugins()}


def test_the_table_of_settings_is_that_of_the_recipes():
    recipes = [
        tomllib.loads((ROOT / "examples" / "recipes" / f"{name}.toml").read_text(encoding="utf-8"))["config"]
        for name in ("small_gpu", "large_gpu")
    ]
    for setting, *shown, why in table_rows("index", "setting"):
        values = [config.get(setting.strip("`"), "–") for config in recipes]
        assert [str(value).lower() if isinstance(value, bool) else str(value) for value in values] == shown, setting
        assert why


def test_the_keys_that_the_tables_name_exist():
    from plaudit.grpo.config import GRPOConfig

    for cells in [*table_rows("index", "setting"), *table_rows("index", "key")]:
        assert hasattr(GRPOConfig("x", use_cpu=True), cells[0].strip("`"))


@pytest.mark.parametrize("page", ["index", "watching"])
def test_the_rewards_and_fields_in_the_text_exist(page):
    """Names in backticks that look like a field or a reward are one."""
    text = BLOCK.sub("", (GUIDE / f"{page}.md").read_text(encoding="utf-8"))
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)(?: = [^`]*)?`", text))
    assert sorted(named - known_names() - ELSEWHERE - set(CHECKS)) == []


# Keys of a run file's other sections, metrics, recipes, methods.
ELSEWHERE = {
    "answer_pattern", "max_prompt_tokens", "eval_split", "eval_path", "eval_size", "max_concurrency",
    "attn_implementation", "model_init_kwargs", "multi_task", "small_gpu", "large_gpu", "eval_reward", "grad_norm",
    "frac_group_zero_std", "adamw_torch_fused", "generate_completions",
}  # fmt: skip
