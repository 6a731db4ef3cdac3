"""The audit cases that ship with the package: answers of many shapes, right and wrong."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def cases() -> list[dict[str, Any]]:
    """Rows `{id, kind: "choice", family, reference, completion, expected: {score}}` for `plaudit audit choice`."""
    text = files("plaudit_choice").joinpath("data/choice_cases.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]
