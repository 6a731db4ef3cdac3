"""Calling hooks so that a broken plugin costs its own part and nothing else."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pluggy

from plaudit.errors import PlauditError, PluginError
from plaudit.plugins import hookspecs
from plaudit.plugins.importing import describe_error
from plaudit.plugins.registry import PluginInfo, list_plugins
from plaudit.plugins.resolve import import_plugin


class Hooks:
    """The loaded hook modules. `broken` holds (plugin, error) of those that could not be loaded or that failed."""

    def __init__(self, plugins: Iterable[PluginInfo] = ()) -> None:
        self.manager = pluggy.PluginManager("plaudit")
        self.manager.add_hookspecs(hookspecs)
        self.broken: list[tuple[str, str]] = []
        for plugin in plugins:
            self._load(plugin)

    def register(self, module: Any, name: str) -> None:
        """Add a module or object with hook implementations. Raises PluginError on an unknown hook or parameter."""
        try:
            self.manager.register(module, name)
        except (pluggy.PluginValidationError, ValueError) as error:
            self.manager.unregister(name=name) if self.manager.has_plugin(name) else None
            raise PluginError(f"hooks '{name}': {' '.join(str(error).split())}") from None
        problem = self._problem(module)
        if problem:
            self.manager.unregister(module)
            raise PluginError(f"hooks '{name}': {problem}")

    def call(self, hook: str, *, check: Callable[[Any], str | None] | None = None, **arguments: Any) -> list[Any]:
        """The results that are not None, in pluggy's order (last registered first); at most one for `firstresult`.

        An implementation that raises, or in whose result `check` finds a problem, is reported once and dropped; a
        PlauditError passes through.
        """
        caller = getattr(self.manager.hook, hook)
        results = []
        for implementation in reversed(caller.get_hookimpls()):
            values = {name: arguments[name] for name in implementation.argnames}
            try:
                result = implementation.function(**values)
            except PlauditError:
                raise
            except Exception as error:
                self._drop(implementation, hook, describe_error(error))
                continue
            problem = check(result) if check is not None and result is not None else None
            if problem:
                self._drop(implementation, hook, problem)
            elif result is not None:
                results.append(result)
                if caller.spec.opts.get("firstresult"):
                    break
        return results

    def _load(self, plugin: PluginInfo) -> None:
        try:
            module, _ = import_plugin(plugin)
            self.register(module, plugin.reference)
        except PluginError as error:
            self._report(plugin.reference, str(error))

    def _problem(self, module: Any) -> str:
        known = [name for name, value in vars(hookspecs).items() if getattr(value, "plaudit_spec", None)]
        callers = self.manager.get_hookcallers(module) or []
        unknown = [caller.name for caller in callers if not caller.has_spec()]
        if unknown:
            return f"there is no hook '{unknown[0]}'; hooks: {', '.join(known)}"
        mine = [i for caller in callers for i in caller.get_hookimpls() if i.plugin is module]
        if any(i.hookwrapper or i.wrapper for i in mine):
            return "hook wrappers are not supported"
        return "" if mine else f"it implements no hook; mark one with @plaudit.hookimpl ({', '.join(known)})"

    def _drop(self, implementation: pluggy.HookImpl, hook: str, problem: str) -> None:
        self.manager.unregister(implementation.plugin)
        self._report(implementation.plugin_name, f"{hook} failed: {problem}; its hooks are not called again")

    def _report(self, name: str, error: str) -> None:
        self.broken.append((name, error))
        warnings.warn(f"{name}: {error}", stacklevel=3)


def choose_sandbox(name: str, limits: Mapping[str, Any]) -> str | None:
    """Hook `choose_sandbox` of the installed plugins: plaudit-sandbox finds it as an entry point."""
    chosen = installed_hooks().call("choose_sandbox", check=_no_name, name=name, limits=limits)
    return chosen[0] if chosen else None


def _no_name(found: Any) -> str | None:
    return None if isinstance(found, str) else f"it returned {found!r:.80}; expected a backend's name or None"


@functools.cache
def installed_hooks() -> Hooks:
    """The hooks of every installed plugin, loaded at the first call of a process."""
    return Hooks(list_plugins(["hooks"]))
