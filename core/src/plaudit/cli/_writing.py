"""Rows into a file: jsonl, json, csv or parquet, by the file's ending."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError

ENDINGS = (".jsonl", ".json", ".csv", ".parquet")


def check_output(path: Path) -> Path:
    """The path, if rows could be written to it. Raises UsageError, before anything is computed, if not."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"cannot write '{path}': expected a file ending in {', '.join(ENDINGS)}")
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise UsageError(f"writing '{path}' needs pyarrow: pip install 'plaudit[data]'")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write '{path}': there is no folder {path.parent}")
    return path


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows (columns in the order they first appear); values that csv or parquet cannot hold go as JSON text."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    ending = path.suffix.lower()
    if ending == ".parquet":
        _write_parquet(path, rows, columns)
    elif ending == ".csv":
        _write_csv(path, rows, columns)
    else:
        lines = [json.dumps(row, ensure_ascii=False, default=str) for row in rows]
        text = "\n".join(lines) + "\n" if ending == ".jsonl" else "[\n" + ",\n".join(lines) + "\n]\n"
        path.write_text(text, encoding="utf-8")


def _write_csv(path: Path, rows: Sequence[dict[str, Any]], columns: list[str]) -> None:
    import csv

    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in rows:
            writer.writerow([_cell(row.get(name)) for name in columns])


def _write_parquet(path: Path, rows: Sequence[dict[str, Any]], columns: list[str]) -> None:
    import pyarrow
    from pyarrow import parquet

    arrays = {}
    for name in columns:
        values = [row.get(name) for row in rows]
        try:
            arrays[name] = pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError):
            arrays[name] = pyarrow.array([None if v is None else _as_json(v) for v in values])
    parquet.write_table(pyarrow.table(arrays), path)


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float, bool)) else _as_json(value)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
