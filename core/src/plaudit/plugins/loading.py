"""The public way to a component: by name, module path, file or live callable."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from plaudit.errors import PluginError, UsageError
from plaudit.plugins.building import Origin, build_component, build_factory
from plaudit.plugins.component import Reward, reward_of
from plaudit.plugins.resolve import resolve
from plaudit.types import Text, Verdict

REWARD_KINDS = ("reward", "verifier")


def load_reward(
    reference: str | Callable[..., Any] | type,
    *,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    reference_column: str | None = None,
) -> Reward:
    """The reward that a reference names, or that a callable is. A verifier becomes a reward.

    reference: `math`, `plaudit-math:math`, `math>=1,<2`, `package.module:attribute`, `./file.py:function`, or a
    function, a class (built with the options), an instance, a partial, a Reward.
    options: checked against the signature first. name: what it is called in logs, by default its own name.
    reference_column: the column a verifier's reference comes from.
    Raises UsageError (wrong reference or options), PluginError (not found, broken, version not met), ContractError.
    """
    found, origin = _found(reference, REWARD_KINDS)
    if isinstance(found, Reward):
        return _renamed(found, options, name, reference_column)
    component = build_component(found, options or {}, origin)
    if reference_column is not None and component.kind == "reward":
        raise UsageError(f"{origin.label} is a reward function; reference_column is for verifiers")
    if name is not None:
        component = dataclasses.replace(component, name=name)
    return reward_of(component, reference_column=reference_column)


class Verifier:
    """A verifier alone: `verify(completion, reference, **columns) -> Verdict`, awaitable when it is asynchronous."""

    def __init__(self, reward: Reward) -> None:
        self.component = reward.component
        self.__name__ = reward.__name__
        self.__doc__ = reward.__doc__
        self._reward = reward

    @property
    def is_async(self) -> bool:
        """Whether a call must be awaited."""
        return self.component.is_async

    def __call__(self, completion: Text, reference: Any = None, **columns: Any) -> Verdict:
        """The verdict; a None reference where one is needed abstains. Raises ContractError on an odd result."""
        return self._reward.judge(completion, {**columns, "reference": reference})


def load_verifier(reference: str | Callable[..., Any] | type, *, options: Mapping[str, Any] | None = None) -> Verifier:
    """As `load_reward`, for verifiers only; what it returns is always a Verdict."""
    found, origin = _found(reference, tuple(reversed(REWARD_KINDS)))
    if isinstance(found, Reward):
        component = _renamed(found, options, None, None).component
    else:
        component = build_component(found, options or {}, origin)
    if component.kind != "verifier":
        raise PluginError(f"{origin.label} is a reward function, not a verifier: it scores whole batches")
    return Verifier(reward_of(component, reference_column="reference"))


def load_environment(
    reference: str | Callable[..., Any] | type, *, options: Mapping[str, Any] | None = None
) -> Callable[[], Any]:
    """A factory of environments: each call gives a new instance, made with the options.

    Raises as `load_reward`, and PluginError for a class that has neither `reset` nor `score_episode`.
    """
    factory = load_plugin("environment", reference, options=options)
    made = factory.func if isinstance(factory, functools.partial) else factory
    if isinstance(made, type) and not (hasattr(made, "reset") or hasattr(made, "score_episode")):
        raise PluginError(
            f"environment '{made.__name__}' has no reset(**row); it needs one, "
            "or build_dataset, score_episode and get_tools"
        )
    return factory


def load_plugin(
    kind: str, reference: str | Callable[..., Any] | type, *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The callable behind an environment, sandbox, dataset, corpus or command, its options checked and bound.

    An object that is not callable comes as a function that returns it. Raises as `load_reward`.
    """
    found, origin = _found(reference, (kind,))
    return build_factory(found, options or {}, origin)


def _found(reference: Any, kinds: tuple[str, ...]) -> tuple[Any, Origin]:
    """The object that a reference names, or the live object itself, with its origin."""
    if isinstance(reference, str):
        return resolve(reference, kinds)
    name = callable_name(reference)
    return reference, Origin(name, f"{kinds[0]} '{name}'", _importable(reference))


def callable_name(target: Any) -> str:
    """The name TRL gives a callable: its __name__, that of the function in a partial, else its class's."""
    while isinstance(target, functools.partial):
        target = target.func
    return str(getattr(target, "__name__", type(target).__name__))


def _importable(target: Any) -> str | None:
    """`module:attribute` when another process gets the very object by it; None for closures, lambdas, __main__."""
    module, path = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not module or not path or module == "__main__" or "<" in path or module.startswith("plaudit_file_"):
        return None
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception:
        return None
    return f"{module}:{path}" if found is target else None


def _renamed(
    reward: Reward, options: Mapping[str, Any] | None, name: str | None, reference_column: str | None
) -> Reward:
    if options:
        raise UsageError(f"'{reward.__name__}' is loaded already; give its options to the load_reward that loads it")
    component = dataclasses.replace(reward.component, name=name) if name else reward.component
    return reward_of(component, reference_column=reference_column or reward.reference_column)
