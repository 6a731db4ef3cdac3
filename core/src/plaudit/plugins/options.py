"""Options: which ones a component has, and checking those given against its signature before anything heavy loads."""

from __future__ import annotations

import difflib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union

from plaudit.errors import UsageError

_CONTAINERS: dict[Any, tuple[type, ...]] = {
    list: (list, tuple),
    tuple: (list, tuple),
    set: (list, tuple, set, frozenset),
    frozenset: (list, tuple, set, frozenset),
    dict: (dict,),
    typing.get_origin(typing.Sequence[int]): (list, tuple, str),
    typing.get_origin(typing.Iterable[int]): (list, tuple, str, set, frozenset, dict),
    typing.get_origin(typing.Mapping[str, int]): (dict,),
}
_CONVERTED = (tuple, set, frozenset)


def check_options(
    what: str, source: Callable[..., Any], parameters: Mapping[str, inspect.Parameter], options: Mapping[str, Any]
) -> dict[str, Any]:
    """`options` as they are handed over: TOML arrays as the tuple or set, and strings as the Path or Enum, annotated.

    parameters: name -> the parameter of `source` that is an option. Raises UsageError that begins with `what` on an
    unknown name, a missing one, or a value that its annotation does not take; a class with **kwargs takes any name.
    """
    hints = _hints(source)
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    named = {name: p for name, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    checked = {}
    for name, value in options.items():
        if name in named:
            is_default = value is named[name].default  # `limit: int = None` takes its None
            checked[name] = value if is_default else _checked(what, name, value, hints.get(name, Any))
        elif takes_any:
            checked[name] = value
        else:
            raise UsageError(_unknown(what, name, named))
    missing = [name for name, p in named.items() if p.default is p.empty and name not in checked]
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        raise UsageError(f"{what} needs the option{'s' if len(missing) > 1 else ''} {names}")
    return checked


def annotation_text(annotation: Any) -> str:
    """An annotation as people write it: `int`, `Literal['a', 'b']`, `float | None`; "" when there is none."""
    if annotation in (inspect.Parameter.empty, Any):
        return ""
    if isinstance(annotation, str):
        return annotation
    if annotation is type(None):
        return "None"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return f"one of {', '.join(repr(member.value) for member in annotation)}"
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__name__
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return " | ".join(annotation_text(part) for part in typing.get_args(annotation))
    return str(annotation).replace("typing.", "").replace("collections.abc.", "")


def _hints(source: Callable[..., Any]) -> dict[str, Any]:
    function = source.__init__ if inspect.isclass(source) else source
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__annotations__"):
        function = type(function).__call__
    try:
        return typing.get_type_hints(inspect.unwrap(function))
    except Exception:  # an annotation that only a type checker can resolve is not checked
        return {}


def _unknown(what: str, name: str, named: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, named, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    have = f"it has {', '.join(named)}" if named else "it has none"
    return f"{what} has no option '{name}'{hint} ({have})"


def _checked(what: str, name: str, value: Any, annotation: Any) -> Any:
    if not _fits(value, annotation):
        given = f"{value!r} ({type(value).__name__})"
        raise UsageError(f"{what}: option '{name}' is {given}; expected {annotation_text(annotation)}")
    return _converted(value, annotation)


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of a simple annotated type; annotations that are not simple take everything."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _fits(value, typing.get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(annotation))
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in typing.get_args(annotation))
    if annotation is None or annotation is type(None):
        return value is None
    if annotation in (bool, str):
        return isinstance(value, annotation)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is Path:
        return isinstance(value, (str, Path))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return isinstance(value, annotation) or value in [member.value for member in annotation]
    container = _CONTAINERS.get(origin or annotation) if isinstance(origin or annotation, type) else None
    return container is None or (isinstance(value, container) and _elements_fit(value, annotation))


def _elements_fit(value: Any, annotation: Any) -> bool:
    arguments = typing.get_args(annotation)
    if not arguments:
        return True
    if isinstance(value, Mapping):
        return len(arguments) != 2 or all(_fits(k, arguments[0]) and _fits(v, arguments[1]) for k, v in value.items())
    if typing.get_origin(annotation) is tuple and arguments[-1] is not Ellipsis:
        return len(value) == len(arguments) and all(map(_fits, value, arguments))
    return all(_fits(element, arguments[0]) for element in value)


def _converted(value: Any, annotation: Any) -> Any:
    origin = typing.get_origin(annotation)
    if origin in (Union, types.UnionType):
        fitting = next(part for part in typing.get_args(annotation) if _fits(value, part))
        return _converted(value, fitting)
    target = origin or annotation
    if target in _CONVERTED and not isinstance(value, target):
        return target(value)
    if annotation is Path or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return annotation(value)
    return value
