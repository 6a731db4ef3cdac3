"""Makes docs/reference/config.md and docs/reference/coverage.md: `python core/tests/grpo/reference_pages.py`."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable
from pathlib import Path

from plaudit.grpo import GRPOConfig
from plaudit.grpo.checking.checks import REMOVED
from plaudit.grpo.fields import GenerationFields, LoggingFields, LossFields, ModelFields, VLLMFields
from transformers import TrainingArguments

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "core" / "tests"
FIELD_TESTS = tomllib.loads((TESTS / "data" / "field_tests.toml").read_text(encoding="utf-8"))
PEER_TESTS = tomllib.loads((TESTS / "data" / "peer_tests.toml").read_text(encoding="utf-8"))
SECTIONS = {
    "Model and start": ModelFields,
    "Data and sampling": GenerationFields,
    "Advantages and loss": LossFields,
    "What is logged of completions": LoggingFields,
    "vLLM": VLLMFields,
}
MADE = "<!-- Made by `make reference` from the fields and from core/tests/data/{}; edit those. -->"


def config_page() -> str:
    """All fields: default, meaning, the test that shows it."""
    parts = [
        "# Every field of GRPOConfig",
        MADE.format("field_tests.toml"),
        "`GRPOConfig` has the fields below, and those of transformers' `TrainingArguments`. Names and defaults are "
        "TRL 1.16's, except that `bf16` is on only where the hardware computes it, and that `gradient_checkpointing` "
        "is off unless it is asked for. A field can be set in Python, in the table `[config]` of a "
        "[run file](run-file.md), with `--set config.NAME=VALUE`, or by `HfArgumentParser` from a command line, a JSON "
        "or a YAML file. Paths of tests begin in `core/tests`, or with `/` at the root.",
    ]
    inherited = {field.name: field for field in dataclasses.fields(TrainingArguments)}
    for title, section in SECTIONS.items():
        own = [field for field in dataclasses.fields(section) if field.name not in inherited]
        rows = [
            [f"`{field.name}`", f"`{field.default!r}`", field.metadata["help"], shown(FIELD_TESTS[field.name])]
            for field in own
        ]
        parts += [f"## {title}", table(["field", "default", "meaning", "test"], rows)]
    parts += ["## TrainingArguments with another default", table(*changed_defaults(inherited)), *removed()]
    return "\n\n".join(parts) + "\n"


def changed_defaults(inherited: dict[str, dataclasses.Field]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            f"`{field.name}`",
            f"`{field.default!r}`",
            f"`{inherited[field.name].default!r}`",
            field.metadata["help"],
            shown(FIELD_TESTS[field.name]),
        ]
        for field in dataclasses.fields(GRPOConfig)
        if field.name in inherited and field.default != inherited[field.name].default
    ]
    return ["field", "default", "of transformers", "meaning", "test"], rows


def removed() -> list[str]:
    rows = [[f"`{name}`", text] for name, text in REMOVED.items()]
    return ["## Names that are gone", "They are refused with what to do in their place.", table(["name", "now"], rows)]


def coverage_page() -> str:
    """TRL's tests of its trainer, and where the same is tested here."""
    missing = sum(isinstance(value, str) and value.startswith("-") for value in PEER_TESTS.values())
    parts = [
        "# What TRL tests, and where it is tested here",
        MADE.format("peer_tests.toml"),
        f"The {len(PEER_TESTS)} tests of TRL's `tests/test_grpo_trainer.py` by name (the newest public version, "
        "1.10.0.dev0 at f2cd577; its wheels have no tests, and those of 1.16 may be more), "
        f"{len(PEER_TESTS) - missing} of which have their like here; the rest say why not. TRL mostly asks whether a "
        "run moves weights; the tests here mostly compare numbers with TRL's own "
        "([beside TRL](../parity.md)). Fields: [all of GRPOConfig](config.md).",
        table(["TRL", "here"], [[f"`{name}`", shown(where)] for name, where in PEER_TESTS.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def shown(where: str | list[str]) -> str:
    """A test's place as a page shows it, or the reason why there is none."""
    if isinstance(where, list):
        return "<br>".join(map(shown, where))
    return where.removeprefix("- ") if where.startswith("-") else f"`{where}`"


def table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


PAGES = {"config.md": config_page, "coverage.md": coverage_page}


def main() -> None:
    for name, make in PAGES.items():
        (ROOT / "docs" / "reference" / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
