"""An environment of verifiers by name, whichever kind it is, loaded once for its options."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from plaudit.errors import UsageError
from plaudit.plugins.importing import describe_error

from ..named import frozen, thawed

if TYPE_CHECKING:
    from .rubric import RubricEnvironment
    from .taskset import TasksetEnvironment


def loaded(
    environment: str, options: Mapping[str, Any] | None = None, env: Mapping[str, Any] | None = None
) -> RubricEnvironment | TasksetEnvironment:
    """The environment, the same one for the same options; `environment`: its module, or as hubs write it, owner/name@1.

    Raises UsageError on what cannot be loaded, and why.
    """
    return _load(environment, frozen(options or {}), frozen(env or {}))


@functools.cache
def _load(environment: str, options: Any, env: Any) -> RubricEnvironment | TasksetEnvironment:
    given, name = thawed(options), environment.rpartition("/")[2].partition("@")[0].replace("-", "_")
    module = _module(environment, name)
    if hasattr(module, "load_environment"):
        if thawed(env):
            raise UsageError(f"verifiers: {environment!r} has a load_environment; `env` is for tasksets, use options")
        from .rubric import RubricEnvironment

        return RubricEnvironment(_made(environment, module.load_environment, given), name)
    if not _has_tasksets():
        raise UsageError(
            f"verifiers: {environment!r} has no load_environment, so it would be a taskset, which needs verifiers 0.4: "
            "pip install 'verifiers>=0.4'"
        )
    from .taskset import TasksetEnvironment

    return TasksetEnvironment.load(name, given, thawed(env))


def _module(environment: str, name: str) -> Any:
    built_in = f"verifiers.v1.tasksets.{name}"
    try:
        tasksets = _has_tasksets()
        return importlib.import_module(built_in if tasksets and importlib.util.find_spec(built_in) else name)
    except metadata.PackageNotFoundError:
        raise UsageError(f"verifiers: environment {environment!r} needs verifiers: pip install verifiers") from None
    except ModuleNotFoundError as error:
        if error.name not in (name, name.partition(".")[0]):
            raise UsageError(f"verifiers: environment {environment!r} needs {error.name}: pip install it") from error
        raise UsageError(
            f"verifiers: there is no environment {environment!r}: no module {name!r} is installed; install its "
            "package, or add its folder to PYTHONPATH"
        ) from error
    except Exception as error:
        raise UsageError(
            f"verifiers: environment {environment!r} cannot be imported: {describe_error(error)}"
        ) from error


def _has_tasksets() -> bool:
    """Whether verifiers has tasksets. Raises PackageNotFoundError when it is not installed."""
    return Version(metadata.version("verifiers")) >= Version("0.4")


def _made(environment: str, load: Any, options: Mapping[str, Any]) -> Any:
    try:
        inspect.signature(load).bind(**options)
    except TypeError as error:
        raise UsageError(
            f"verifiers: options of {environment!r}: {error}; it takes load_environment{inspect.signature(load)}"
        ) from error
    try:
        return load(**options)
    except Exception as error:
        raise UsageError(f"verifiers: {environment!r} cannot be made: {describe_error(error)}") from error
