"""The audit cases that ship with the package: rows that each rule must pass or refuse."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def cases() -> list[dict[str, Any]]:
    """Rows `{id, kind: "format", family, reference, completion, expected: {score}}` for `plaudit audit format`."""
    text = files("plaudit_text").joinpath("data/format_cases.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]
