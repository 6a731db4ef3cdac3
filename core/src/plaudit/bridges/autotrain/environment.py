"""AITraining's environment class: found, built and checked before a model is loaded."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError

METHODS = ("build_dataset", "score_episode")
ENGINE_PARAMETERS = ("model", "tokenizer", "completion")


def load_environment(module: str, name: str, config: Mapping[str, Any]) -> Any:
    """An instance of the class `name` of `module`, called with `config`.

    Raises UsageError when the module or class is missing, lacks a method, or refuses its configuration.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except Exception as error:  # whatever its own code raises
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"--rl-env-module {module}: cannot be imported from {os.getcwd()}: {what}") from error
    cls = getattr(found, name, None)
    if not inspect.isclass(cls):
        classes = [key for key, value in vars(found).items() if inspect.isclass(value) and value.__module__ == module]
        raise UsageError(f"--rl-env-class {name}: {module} has no such class (it has {', '.join(classes) or 'none'})")
    missing = [method for method in METHODS if not callable(getattr(cls, method, None))]
    if missing:
        raise UsageError(f"{module}.{name} has no method {', '.join(missing)}; an environment has {', '.join(METHODS)}")
    try:
        return cls(**config)
    except Exception as error:
        shown = ", ".join(f"{key}={value!r}" for key, value in config.items())
        raise UsageError(f"{module}.{name}({shown}) failed: {type(error).__name__}: {error}") from error


def build_rows(environment: Any, tokenizer: Any, limit: int | None = None) -> list[dict[str, Any]]:
    """The rows of `build_dataset(tokenizer)`, each with a prompt, in their order; at most `limit`.

    Raises UsageError when there are none, when a prompt is missing, or when score_episode needs a column that the
    dataset lacks.
    """
    name = type(environment).__name__
    try:
        built = environment.build_dataset(tokenizer)
    except Exception as error:
        raise UsageError(f"{name}.build_dataset failed: {type(error).__name__}: {error}") from error
    try:
        rows = [dict(built[index]) for index in range(len(built) if limit is None else min(limit, len(built)))]
    except (TypeError, KeyError, ValueError) as error:
        raise UsageError(
            f"{name}.build_dataset returned a {type(built).__name__}; expected a datasets.Dataset or a list of dicts"
        ) from error
    if not rows:
        raise UsageError(f"{name}.build_dataset returned no rows; it needs at least one")
    if "prompt" not in rows[0]:
        raise UsageError(f"{name}.build_dataset has no column 'prompt' (columns: {', '.join(rows[0])})")
    for place, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            raise UsageError(
                f"{name}.build_dataset: row {place} has the columns {', '.join(row)}; row 0 has {', '.join(rows[0])}"
            )
        if not isinstance(row["prompt"], (str, list)) or not row["prompt"]:
            raise UsageError(
                f"{name}.build_dataset: row {place} has the prompt {row['prompt']!r:.60}; expected text or messages"
            )
    episode_columns(environment, rows[0].keys())
    return rows


def episode_columns(environment: Any, columns: Any) -> tuple[str, ...]:
    """The dataset columns that score_episode is called with, by name: all of them where it takes **kwargs.

    Raises UsageError when its signature requires one that the dataset lacks, and on a column that is named like what
    the engine gives it.
    """
    name = type(environment).__name__
    taken = [column for column in columns if column in ENGINE_PARAMETERS]
    if taken:
        raise UsageError(
            f"{name}.build_dataset has the column {taken[0]!r}, but the engine gives score_episode its own "
            f"{', '.join(ENGINE_PARAMETERS)}; rename the column"
        )
    parameters = inspect.signature(environment.score_episode).parameters.values()
    others = [one for one in parameters if one.name not in ENGINE_PARAMETERS]
    anything = any(one.kind is one.VAR_KEYWORD for one in others)
    named = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    without = [one for one in ENGINE_PARAMETERS if one not in named and not anything]
    if without:
        raise UsageError(
            f"{name}.score_episode takes no {without[0]!r}; it is called with {', '.join(ENGINE_PARAMETERS)} by name"
        )
    keyword = [one for one in others if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    given = [column for column in columns if column != "prompt"] + ["prompt"]
    lacking = [one.name for one in keyword if one.default is one.empty and one.name not in given]
    if lacking:
        raise UsageError(
            f"{name}.score_episode requires {', '.join(map(repr, lacking))}, but build_dataset has no such column "
            f"(columns: {', '.join(columns)}); add it, or give the parameter a default"
        )
    if anything:
        return tuple(given)
    return tuple(one.name for one in keyword if one.name in given)


def with_tools(rows: Sequence[dict[str, Any]], environment: Any, tokenizer: Any) -> tuple[list[dict[str, Any]], list]:
    """The rows and the tool schemas of `get_tools()`, which the chat template shows in every prompt.

    With tools a plain prompt becomes a user message, since only a chat template can carry them. Raises UsageError when
    get_tools fails or returns something else than tool definitions and documented functions, or when the tokenizer has
    no chat template.
    """
    name = type(environment).__name__
    tools = _tools_of(environment, name)
    if not tools:
        return list(rows), []
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(f"{name}.get_tools offers {len(tools)} tools, but the tokenizer has no chat template for them")
    return [{**row, "prompt": _as_messages(row["prompt"])} for row in rows], tools


def _tools_of(environment: Any, name: str) -> list[Any]:
    from transformers.utils import get_json_schema

    if not callable(getattr(environment, "get_tools", None)):
        return []
    try:
        given = environment.get_tools() or []
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"it returned {given!r:.80}; expected a list of tool definitions")
        tools = [get_json_schema(tool) if inspect.isroutine(tool) else tool for tool in given]
    except Exception as error:
        raise UsageError(f"{name}.get_tools failed: {type(error).__name__}: {error}") from error
    if not all(isinstance(tool, Mapping) for tool in tools):
        raise UsageError(f"{name}.get_tools returned {tools!r:.80}; expected tool definitions (dicts), or functions")
    return tools


def _as_messages(prompt: Any) -> Any:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
