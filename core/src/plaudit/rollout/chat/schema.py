"""The JSON schema of a Python function that a model may call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...errors import UsageError


def function_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """`{"type": "function", "function": {"name", "description", "parameters"}}`, as chat templates take it.

    Read from type hints and a Google docstring with an `Args:` section; `self` is left out. A function that carries its
    schema as `__tool_schema__`, as the tools of remote environments do, is taken at its word. Raises UsageError that
    names the function, and what is missing.
    """
    from transformers.utils import get_json_schema
    from transformers.utils.chat_template_utils import DocstringParsingException, TypeHintParsingException

    name = getattr(function, "__name__", type(function).__name__)
    plain = getattr(function, "__func__", function)  # a bound method: its function, whose `self` is skipped below
    if hasattr(plain, "__tool_schema__"):
        return dict(plain.__tool_schema__)
    if not inspect.isroutine(function):
        kind = "class" if inspect.isclass(function) else name
        raise UsageError(f"tool {name!r} is a {kind}; expected a function or method: write one that calls it")
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise UsageError(f"tool {name!r} yields; expected a function that returns its whole answer")
    _check_parameters(name, function)
    if not inspect.getdoc(plain):
        raise UsageError(
            f"tool {name!r} has no docstring; say what it does, with an 'Args:' section that describes each argument"
        )
    try:
        schema: dict[str, Any] = get_json_schema(function)
    except DocstringParsingException as error:
        raise UsageError(
            f"tool {name!r}: {error}; describe each argument in an 'Args:' section of its docstring"
        ) from error
    except (TypeHintParsingException, NameError, TypeError) as error:
        raise UsageError(f"tool {name!r}: its type hints cannot be read as a JSON schema: {error}") from error
    return schema


def _check_parameters(name: str, function: Callable[..., Any]) -> None:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(
                f"tool {name!r}: argument {str(parameter)!r} cannot be given by name; a model calls tools by "
                "named arguments"
            )
        if parameter.annotation is parameter.empty:
            raise UsageError(
                f"tool {name!r}: argument {parameter.name!r} has no type; write it as {parameter.name}: int"
            )
