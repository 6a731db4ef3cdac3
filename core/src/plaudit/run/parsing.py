"""Tables into the dataclasses of the schema: unknown keys, missing keys and wrong types are errors with their path."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from plaudit.errors import UsageError
from plaudit.run.typecheck import closest, describe, fits, show

Section = TypeVar("Section")


def build(section: type[Section], table: Any, where: str = "") -> Section:
    """The dataclass `section` from a TOML table; `where` is its key path. Raises UsageError naming the key."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} = {show(table)}: expected a table, [{where}]")
    fields = {field.metadata.get("key", field.name): field for field in dataclasses.fields(section)}  # type: ignore[arg-type]
    hints = get_type_hints(section)
    reject_unknown(table, fields, where)
    values = {}
    for key, field in fields.items():
        if key in table:
            values[field.name] = _value(table[key], hints[field.name], join(where, key))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise UsageError(f"{join(where, key)} is missing: expected {_what(hints[field.name])}")
    return section(**values)


def reject_unknown(table: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    """Raise UsageError for the first key of `table` that `known` lacks, with the closest one."""
    for key in table:
        if key not in known:
            place = f" in [{where}]" if where else ""
            raise UsageError(f"unknown key '{key}'{place}{closest(key, known) or ': known are ' + ', '.join(known)}")


def check_value(value: Any, annotation: Any, path: str) -> Any:
    """`value` if it fits `annotation`; else raise UsageError with the key path."""
    if not fits(value, annotation):
        hint = closest(value, _choices(annotation)) if isinstance(value, str) else ""
        raise UsageError(f"{path} = {show(value)}: expected {describe(annotation)}{hint}")
    return value


def join(where: str, key: str | int) -> str:
    """A key path: `data` and `split` make `data.split`."""
    return f"{where}.{key}" if where else str(key)


def _value(value: Any, annotation: Any, path: str) -> Any:
    inner = _section_type(annotation)
    if inner is None:
        checked = check_value(value, annotation, path)
        return tuple(checked) if isinstance(checked, list) else checked
    if get_origin(annotation) is not tuple:
        return build(inner, value, path)
    if not isinstance(value, list):
        raise UsageError(f"{path} = {show(value)}: expected a list of tables, [[{path}]]")
    return tuple(build(inner, item, join(path, index)) for index, item in enumerate(value))


def _section_type(annotation: Any) -> type | None:
    """The dataclass inside `Section`, `Section | None` or `tuple[Section, ...]`."""
    if get_origin(annotation) in (tuple, Union, types.UnionType):
        return next((inner for one in get_args(annotation) if (inner := _section_type(one))), None)
    return annotation if dataclasses.is_dataclass(annotation) and isinstance(annotation, type) else None


def _what(annotation: Any) -> str:
    return "a table" if _section_type(annotation) else describe(annotation)


def _choices(annotation: Any) -> list[str]:
    if isinstance(annotation, type) and hasattr(annotation, "__members__"):
        return [str(member.value) for member in annotation]  # type: ignore[attr-defined]
    nested = [choice for one in get_args(annotation) if not isinstance(one, str) for choice in _choices(one)]
    return nested + [one for one in get_args(annotation) if isinstance(one, str)]
