"""Audit cases: JSON lines `{id, kind, family, reference | gold, completion, expected}`, from files and packages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError

Case = dict[str, Any]


def read_cases(package: str, *names: str) -> list[Case]:
    """The cases in files `names` of an importable package, e.g. `read_cases("plaudit_json", "data/cases.jsonl")`."""
    return [
        case for name in names for case in _parse(files(package).joinpath(name).read_text("utf-8").splitlines(), name)
    ]


def load_cases(path: str | Path) -> list[Case]:
    """The cases in a file. Raises UsageError when it cannot be read or a line is not a JSON object."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read cases from {path}: {error}") from error
    return _parse(lines, str(path))


def installed_cases(name: str) -> list[Case]:
    """The cases of every installed corpus of that name (entry-point group `plaudit.corpora`)."""
    from plaudit.plugins.importing import import_attribute
    from plaudit.plugins.registry import list_plugins

    corpora = [info for info in list_plugins(["corpus"]) if info.name == name]
    loaded = [
        import_attribute(*info.value.split(":"), what=f"corpus '{name}' ({info.distribution})") for info in corpora
    ]
    return [case for corpus in loaded for case in corpus()]


def _parse(lines: Iterable[str], source: str) -> list[Case]:
    return [_case(line, source, number) for number, line in enumerate(lines, 1) if line.strip()]


def _case(line: str, source: str, number: int) -> Case:
    try:
        case = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{source}, line {number}: not JSON ({error.msg}); each line must be one case") from error
    if not isinstance(case, dict) or not {"kind", "completion"} <= set(case):
        raise UsageError(f"{source}, line {number}: a case needs at least the keys 'kind' and 'completion'")
    return case
