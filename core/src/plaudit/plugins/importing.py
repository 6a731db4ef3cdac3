"""Getting the object behind `module:attribute` or `file.py:attribute`, with errors that say what to do."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from plaudit.errors import PluginError, UsageError

_FILES = threading.RLock()
"""Two threads that ask for one file get one module."""


def import_attribute(module: str, attribute: str, *, what: str) -> Any:
    """The object `attribute` (dotted) of a module. Raises PluginError, which begins with `what`."""
    return _attribute(import_module(module, what=what), attribute, what)


def import_module(module: str, *, what: str) -> ModuleType:
    """Import a module; one that lies in the working directory is found too, as with `python -m`."""
    _offer_working_directory(module.partition(".")[0])
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise PluginError(f"{what} cannot be imported: {describe_error(error)}") from error


def import_file(path: str, attribute: str, *, what: str) -> Any:
    """The object `attribute` of a Python file. The file's folder joins sys.path at its end, so its siblings import.

    Loading an unchanged file again gives the same module. Raises UsageError when there is no such file.
    """
    file = Path(path.replace("\\", "/") if os.name != "nt" else path).expanduser().resolve()
    if not file.is_file():
        raise UsageError(f"{what}: there is no file {file}")
    stamp = file.stat().st_mtime_ns
    name = f"plaudit_file_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    with _FILES:
        module = sys.modules.get(name)
        if module is None or getattr(module, "__plaudit_stamp__", None) != stamp:
            module = _execute(name, file, what)
            module.__plaudit_stamp__ = stamp  # type: ignore[attr-defined]
    return _attribute(module, attribute, what)


def describe_error(error: BaseException) -> str:
    """`Type: message` in one line, with the cause of a failed import chain when it says more."""
    message = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {message}"


def module_exists(module: str) -> bool:
    """Whether the module could be imported, as far as can be told without running anything but its parents."""
    if not all(part.isidentifier() for part in module.split(".")):
        return False
    top = module.partition(".")[0]
    _offer_working_directory(top)
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return top in sys.modules


def _offer_working_directory(top: str) -> None:
    here = os.getcwd()
    if here in sys.path or "" in sys.path or not top.isidentifier() or top in sys.modules:
        return
    if (Path(here) / f"{top}.py").is_file() or (Path(here) / top).is_dir():
        sys.path.append(here)


def _execute(name: str, file: Path, what: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PluginError(f"{what}: {file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise PluginError(f"{what} cannot be imported: {describe_error(error)}") from error
    return module


def _attribute(module: ModuleType, attribute: str, what: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except Exception as error:
            raise PluginError(_no_attribute(module, attribute, what, error)) from error
    return found


def _no_attribute(module: ModuleType, attribute: str, what: str, error: Exception) -> str:
    if not isinstance(error, AttributeError):
        return f"{what} cannot be loaded: {describe_error(error)}"
    public = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    near = difflib.get_close_matches(attribute, public, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else f"; it has {', '.join(sorted(public)[:8]) or 'no functions'}"
    where = getattr(module, "__file__", None) if module.__name__.startswith("plaudit_file_") else module.__name__
    return f"{what}: '{attribute}' is not in {where}{hint}"
