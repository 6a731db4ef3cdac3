"""From the object an author wrote (function, class, partial, instance) to a Component with its options applied."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from plaudit.errors import ContractError, PluginError, UsageError
from plaudit.plugins.component import REWARD_CONTRACT, VERIFIER_CONTRACT, CallSignature, Component
from plaudit.plugins.declare import Kind, declaration_of, declare
from plaudit.plugins.importing import describe_error
from plaudit.plugins.options import check_options

_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an object was found. `label` begins every error: `verifier 'math' (plaudit-math 0.3)`."""

    name: str
    label: str
    reference: str | None = None
    distribution: str | None = None
    version: str | None = None


def build_component(found: Any, options: Mapping[str, Any], origin: Origin) -> Component:
    """The component of an object that keeps the reward or the verifier contract. No option is left unchecked.

    Raises UsageError on wrong options, PluginError when the author's class cannot be built, ContractError when the
    object is neither a reward nor a verifier.
    """
    call, checked = _instance(found, options, origin) if inspect.isclass(found) else (contract_call(found, origin), {})
    parameters = call_parameters(call, origin)
    declaration = declaration_of(found) or declare("verifier" if "completion" in parameters else "reward")
    kind = declaration.kind
    offered = {} if inspect.isclass(found) else option_parameters(parameters, kind)
    if not inspect.isclass(found):
        checked = check_options(origin.label, call, offered, options)
    # TRL hands a column to any parameter of its name. A reward that declared nothing keeps that for options not set.
    hidden = set(offered) if kind == "verifier" or declaration_of(found) else set(checked)
    signature = contract_signature(parameters, hidden)
    check_contract(kind, parameters, signature, origin)
    bound = call if inspect.isclass(found) or not checked else functools.partial(call, **checked)
    return Component(
        kind=kind, name=origin.name, target=bound, declaration=declaration, signature=signature,
        is_async=is_coroutine_function(call), reference=origin.reference, options=dict(options),
        distribution=origin.distribution, version=origin.version, option_names=frozenset(hidden),
    )  # fmt: skip


def build_factory(found: Any, options: Mapping[str, Any], origin: Origin) -> Callable[..., Any]:
    """`found` (a class, or a function that makes the thing) with its options checked and bound.

    A function's options are all its parameters that have a default, and keyword-only ones.
    """
    if not callable(found):
        if options:
            raise UsageError(f"{origin.label} takes no options: it is a {type(found).__name__}")
        return lambda: found
    checked = check_options(origin.label, found, factory_parameters(found, origin), options)
    return functools.partial(found, **checked) if checked else found


def contract_call(found: Any, origin: Origin) -> Callable[..., Any]:
    """The callable that keeps the contract: the object's `verify`, else the object itself."""
    verify = getattr(found, "verify", None)
    if callable(verify) and not inspect.isroutine(found):
        return verify  # type: ignore[no-any-return]
    if not callable(found):
        raise ContractError(f"{origin.label} is a {type(found).__name__}; expected a function, or a class with verify")
    return found  # type: ignore[no-any-return]


def option_parameters(parameters: Mapping[str, inspect.Parameter], kind: Kind) -> dict[str, inspect.Parameter]:
    """A function's options: keyword-only parameters with a default that are not part of the contract of its kind."""
    contract = VERIFIER_CONTRACT if kind == "verifier" else REWARD_CONTRACT
    return {
        name: p
        for name, p in parameters.items()
        if p.kind is p.KEYWORD_ONLY and p.default is not p.empty and name not in contract
    }


def factory_parameters(found: Callable[..., Any], origin: Origin) -> dict[str, inspect.Parameter]:
    """The options of a class (its __init__ parameters) or of a factory function."""
    parameters = call_parameters(found, origin)
    if inspect.isclass(found):
        return parameters
    return {name: p for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY or p.default is not p.empty}


def is_coroutine_function(call: Any) -> bool:
    """Whether a call gives a coroutine: a coroutine function, a partial of one, an instance with async __call__."""
    while isinstance(call, functools.partial):
        call = call.func
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def _instance(found: type, options: Mapping[str, Any], origin: Origin) -> tuple[Callable[..., Any], dict[str, Any]]:
    contract_method_of_class(found, origin)
    checked = check_options(origin.label, found, factory_parameters(found, origin), options)
    try:
        instance = found(**checked)
    except Exception as error:
        raise PluginError(f"{origin.label}: its __init__ failed with {describe_error(error)}") from error
    return contract_call(instance, origin), checked


def contract_method_of_class(found: type, origin: Origin) -> Callable[..., Any]:
    """The function behind `verify`, else `__call__`, of a class. Raises ContractError when it has neither."""
    for name in ("verify", "__call__"):
        # Looked up on the bases: the class itself is always callable, its instances may not be.
        if any(name in vars(base) for base in found.__mro__):
            return getattr(found, name)  # type: ignore[no-any-return]
    raise ContractError(f"{origin.label}: class {found.__name__} has neither verify nor __call__")


def call_parameters(call: Callable[..., Any], origin: Origin) -> dict[str, inspect.Parameter]:
    """The parameters of a callable by name. Raises ContractError when they cannot be read."""
    try:
        return dict(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        raise ContractError(f"{origin.label}: its signature cannot be read; wrap it in a Python function") from None


def contract_signature(parameters: Mapping[str, inspect.Parameter], hidden: set[str]) -> CallSignature:
    """The contract call's parameters, without those in `hidden` (options)."""
    called = {name: p for name, p in parameters.items() if p.kind in _KEYWORD and name not in hidden}
    return CallSignature(
        names=frozenset(called),
        required=frozenset(name for name, p in called.items() if p.default is p.empty),
        takes_any=any(p.kind is p.VAR_KEYWORD for p in parameters.values()),
    )


def check_contract(
    kind: Kind, parameters: Mapping[str, inspect.Parameter], signature: CallSignature, origin: Origin
) -> None:
    """Raise ContractError, which begins with the origin's label, when a call by name could not work."""
    positional = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]
    if positional:
        raise ContractError(f"{origin.label}: parameter '{positional[0]}' is positional-only; arguments come by name")
    if kind == "environment":
        raise ContractError(f"{origin.label} is an environment; name it under [[environment]], not as a reward")
    if kind == "reward" and not signature.takes_any and not signature.names & REWARD_CONTRACT:
        raise ContractError(f"{origin.label} takes neither 'completions', as a reward, nor 'completion', as a verifier")
    if kind == "verifier" and "completion" not in signature.names and not signature.takes_any:
        raise ContractError(
            f"{origin.label} takes no 'completion'; a verifier is verify(completion, reference, column…)"
        )
