"""Plaudit: name a reward, train with it.

The public API. Importing this package imports no torch and no plugin; each name below is loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Row": "types",
    "Rollout": "types",
    "Verdict": "types",
    "Score": "types",
    "completion_text": "types",
    "PlauditError": "errors",
    "UsageError": "errors",
    "PluginError": "errors",
    "ContractError": "errors",
    "reward": "plugins.declare",
    "verifier": "plugins.declare",
    "Declaration": "plugins.declare",
    "load_reward": "plugins.loading",
    "load_verifier": "plugins.loading",
    "load_environment": "plugins.loading",
    "list_plugins": "plugins.registry",
    "read_cases": "corpora",
    "load_cases": "corpora",
    "hookimpl": "plugins.hookspecs",
    "BadJson": "strict_json",
    "parse_json": "strict_json",
    "parse_json_prefix": "strict_json",
    "same_value": "strict_json",
    "ToolCall": "rollout.chat.calls",
    "call_from": "rollout.chat.calls",
    "MalformedCall": "rollout.chat.calls",
    "read_tool_calls": "rollout.chat.reading",
    "ClassifierReward": "scoring.classifier",
    "load_classifier": "scoring.classifier",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'plaudit' has no attribute {name!r}")
    return getattr(import_module(f"plaudit.{home}"), name)


def __dir__() -> list[str]:
    return __all__
