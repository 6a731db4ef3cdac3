"""Rows out of json, jsonl, csv and parquet files, with errors that name the file and the line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError
from plaudit.run.typecheck import closest, show

Records = list[dict[str, Any]]


def read_rows(path: str | Path, *, text: Collection[str] = ()) -> Records:
    """The rows of a .jsonl, .json (a list), .csv or .parquet file. Raises UsageError; never an empty list.

    `text`: columns of a .csv file that stay as they are written; in the others numbers become numbers.
    """
    source, reader = _reader(path, _READERS)
    rows = _read_csv(source, text) if reader is _read_csv else reader(source)
    if not rows:
        raise UsageError(f"'{path}' holds no rows")
    return rows


def stream_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """The rows of a .jsonl, .csv or .parquet file one by one. Raises UsageError, also when there is none."""
    source, reader = _reader(path, _STREAMING)
    empty = True
    for row in reader(source):
        empty = False
        yield row
    if empty:
        raise UsageError(f"'{path}' holds no rows")


def _reader(path: str | Path, readers: Mapping[str, Any]) -> tuple[Path, Any]:
    source = Path(path).expanduser()
    if not source.is_file():
        there = [str(other) for other in source.parent.iterdir()] if source.parent.is_dir() else []
        raise UsageError(f"no file '{path}'{closest(str(source), there)}")
    reader = readers.get(source.suffix.lower())
    if reader is None:
        how = "stream" if source.suffix.lower() in _READERS else "read"
        raise UsageError(f"cannot {how} '{path}': expected a file ending in {', '.join(readers)}")
    if source.suffix.lower() in (".csv", ".parquet") and find_spec("pyarrow") is None:
        raise UsageError(f"reading '{path}' needs pyarrow: pip install 'plaudit[data]'")
    return source, reader


def _read_jsonl(source: Path) -> Records:
    return list(_jsonl_rows(source, _text(source).split("\n")))


def _stream_jsonl(source: Path) -> Iterator[dict[str, Any]]:
    try:
        with source.open(encoding="utf-8", newline="\n") as lines:
            yield from _jsonl_rows(source, lines)
    except UnicodeDecodeError as error:
        raise _not_text(source, error) from None


def _jsonl_rows(source: Path, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _record(_parse(line, f"{source} line {number}"), f"{source} line {number}")


def _read_json(source: Path) -> Records:
    content = _parse(_text(source), str(source))
    if not isinstance(content, list):
        raise UsageError(f"{source} holds {show(content, 40)}: expected a list of objects, or name the file .jsonl")
    return [_record(item, f"{source} item {index}") for index, item in enumerate(content)]


def _read_csv(source: Path, text: Collection[str] = ()) -> Records:
    import pyarrow
    from pyarrow import csv

    # Completions have line breaks.
    parsing = csv.ParseOptions(newlines_in_values=True)
    conversion = csv.ConvertOptions(column_types={name: pyarrow.string() for name in text})
    try:
        return list(csv.read_csv(source, parse_options=parsing, convert_options=conversion).to_pylist())
    except pyarrow.ArrowInvalid as error:
        if source.stat().st_size == 0:
            return []
        raise UsageError(f"{source} is not CSV with a header line: {error}") from None


def _read_parquet(source: Path) -> Records:
    import pyarrow
    from pyarrow import parquet

    try:
        return list(parquet.read_table(source).to_pylist())
    except pyarrow.ArrowInvalid as error:
        raise UsageError(f"{source} is not a parquet file: {error}") from None


def _stream_batches(source: Path) -> Iterator[dict[str, Any]]:
    """Rows of a .csv or .parquet file, a batch in memory at a time."""
    import pyarrow
    from pyarrow import csv, parquet

    try:
        if source.suffix.lower() == ".csv":
            batches = iter(csv.open_csv(source, parse_options=csv.ParseOptions(newlines_in_values=True)))
        else:
            batches = parquet.ParquetFile(source).iter_batches()
        for batch in batches:
            yield from batch.to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise UsageError(f"{source} is not {source.suffix[1:].upper()}: {error}") from None


_READERS: dict[str, Callable[[Path], Records]] = {
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}


_STREAMING: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    ".jsonl": _stream_jsonl,
    ".ndjson": _stream_jsonl,
    ".csv": _stream_batches,
    ".parquet": _stream_batches,
}


def _text(source: Path) -> str:
    try:
        return source.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _not_text(source, error) from None


def _not_text(source: Path, error: UnicodeDecodeError) -> UsageError:
    return UsageError(f"{source} is not UTF-8 text: {error}")


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where} is not JSON: {error}") from None


def _record(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} is {show(value, 40)}: expected an object with a value for each column")
    return value
