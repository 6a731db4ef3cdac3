"""Where rows come from: a file, a folder saved by `datasets`, a plugin's dataset, or the hub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.loading import load_plugin
from plaudit.plugins.reference import Reference
from plaudit.plugins.registry import list_plugins
from plaudit.plugins.resolve import find
from plaudit.run.files import Records, read_rows, stream_rows
from plaudit.run.schema import DataSection


def load_records(data: DataSection, where: str, *, heldout: bool = False) -> Records:
    """The raw rows of a `[data]` section, or its held-out rows. Raises UsageError; never an empty list."""
    split = data.eval_split if heldout and data.eval_split else data.split
    if heldout and data.eval_path:
        return _from_path(data.eval_path, "train", where)
    if data.path is not None:
        return _from_path(data.path, split, where)
    load = _from_plugin if comes_from_plugin(data) else _from_hub
    return load(data, str(data.name), split, where)


def stream_records(data: DataSection, where: str) -> Iterator[dict[str, Any]]:
    """The raw training rows of a `[data]` section one by one, held nowhere. Raises UsageError."""
    if data.path is None:
        yield from _hub_dataset(data, str(data.name), data.split, where, streaming=True)
    elif Path(data.path).expanduser().is_dir():
        yield from _saved(data.path, data.split, where)
    else:
        _check_split(data.path, data.split, where)
        yield from stream_rows(data.path)


def comes_from_plugin(data: DataSection) -> bool:
    """Whether the rows are those of a plugin, or of a function by reference."""
    if data.name is None:
        return False
    reference = Reference.parse(data.name)
    return bool(reference.path or reference.owner or find(reference, ("dataset",)))


def _from_path(path: str, split: str, where: str) -> Records:
    if Path(path).expanduser().is_dir():
        return _filled(list(_saved(path, split, where)), path)
    _check_split(path, split, where)
    return read_rows(path)


def _check_split(path: str, split: str, where: str) -> None:
    if split != "train":
        raise UsageError(
            f"[{where}] '{path}' is one file: it has no split '{split}'; name the held-out file as eval_path"
        )


def _saved(path: str, split: str, where: str) -> Any:
    from datasets import DatasetDict, load_from_disk

    try:
        saved = load_from_disk(str(Path(path).expanduser()))
    except (FileNotFoundError, ValueError):
        raise UsageError(
            f"[{where}] folder '{path}' was not saved by datasets' save_to_disk; name a file in it"
        ) from None
    if isinstance(saved, DatasetDict):
        if split not in saved:
            raise UsageError(f"[{where}] '{path}' has no split '{split}' (splits: {', '.join(saved)})")
        saved = saved[split]
    return saved


def _from_plugin(data: DataSection, name: str, split: str, where: str) -> Records:
    for key in ("config", "revision"):
        if getattr(data, key) is not None:
            raise UsageError(
                f"{where}.{key} is for hub datasets, and '{name}' comes from a plugin: use {where}.options"
            )
    dataset = load_plugin("dataset", name, options=data.options)
    try:
        rows = [dict(row) for row in dataset(split=split)]
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(f"[{where}] dataset '{name}' failed for split '{split}': {error}") from error
    return _filled(rows, f"{name}, split {split}")


def _from_hub(data: DataSection, name: str, split: str, where: str) -> Records:
    return _filled(list(_hub_dataset(data, name, split, where)), f"{name}, split {split}")


def _hub_dataset(data: DataSection, name: str, split: str, where: str, **how: Any) -> Any:
    import datasets

    installed = ", ".join(info.name for info in list_plugins(["dataset"])) or "none"
    absent = f"[{where}] no installed plugin offers the dataset '{name}' (installed: {installed})"
    if data.options:
        raise UsageError(f"{absent}, and {where}.options are for plugins' datasets only")
    try:
        return datasets.load_dataset(name, data.config, split=split, revision=data.revision, **how)
    except Exception as error:  # the hub, its cache and remote files fail in ways of their own
        raise UsageError(f"{absent}, and the hub does not either: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    lines: Sequence[str] = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _filled(rows: list[Any], source: str) -> Records:
    if not rows:
        raise UsageError(f"'{source}' holds no rows")
    return rows
