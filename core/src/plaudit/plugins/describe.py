"""What can be told of a component without building it (options, columns, docstring), and if it keeps its contract."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from plaudit.errors import ContractError, PluginError
from plaudit.plugins.building import (
    Origin,
    call_parameters,
    check_contract,
    contract_call,
    contract_method_of_class,
    contract_signature,
    factory_parameters,
    is_coroutine_function,
    option_parameters,
)
from plaudit.plugins.component import REWARD_CONTRACT, VERIFIER_CONTRACT, docstring
from plaudit.plugins.declare import Declaration, declaration_of, declare
from plaudit.plugins.hooks import Hooks
from plaudit.plugins.options import annotation_text


def describe(kind: str, found: Any, origin: Origin) -> dict[str, Any]:
    """As JSON: doc; for what takes options also `options` [{name, type, required, default}]; for rewards and verifiers
    `columns` [{name, required}], `takes_any_column`, `async` and `declared`.

    Raises ContractError or PluginError when the object does not keep the contract of its kind.
    """
    doc = {"doc": docstring(found)}
    if origin.name.endswith(":*"):  # a family: what it gives is known once a name is asked for
        if not callable(found):
            raise ContractError(f"{origin.label} is not callable; a family is a function of a name")
        return doc
    if kind == "hooks":
        Hooks().register(found, origin.name)
        return doc
    if kind == "command":
        missing = [part for part in ("HELP", "add_arguments", "run") if not hasattr(found, part)]
        if missing:
            raise PluginError(f"{origin.label} lacks {', '.join(missing)}")
        return doc | {"doc": doc["doc"] or str(found.HELP)}
    if kind in ("reward", "verifier"):
        return doc | _judging(kind, found, origin)
    if not callable(found):
        return doc | {"options": []}
    if (
        kind == "environment"
        and inspect.isclass(found)
        and not (hasattr(found, "reset") or hasattr(found, "score_episode"))
    ):
        raise ContractError(f"{origin.label} has no reset(**row)")
    return doc | {"options": _options(factory_parameters(found, origin))}


def _judging(kind: str, found: Any, origin: Origin) -> dict[str, Any]:
    is_class = inspect.isclass(found)
    call = contract_method_of_class(found, origin) if is_class else contract_call(found, origin)
    parameters = call_parameters(call, origin)
    if is_class:
        parameters.pop("self", None)
    declaration = declaration_of(found) or declare("verifier" if "completion" in parameters else "reward")
    options = factory_parameters(found, origin) if is_class else option_parameters(parameters, declaration.kind)
    signature = contract_signature(parameters, set() if is_class else set(options))
    check_contract(declaration.kind, parameters, signature, origin)
    if kind == "verifier" and declaration.kind != "verifier":
        raise ContractError(f"{origin.label} is a reward function; list it under plaudit.rewards")
    contract = VERIFIER_CONTRACT if declaration.kind == "verifier" else REWARD_CONTRACT
    columns = [{"name": n, "required": n in signature.required} for n in parameters if n in signature.names - contract]
    return {
        "options": _options(options),
        "columns": columns,
        "takes_any_column": signature.takes_any,
        "async": is_coroutine_function(call),
        "declared": _declared(declaration),
    }


def _options(parameters: dict[str, inspect.Parameter]) -> list[dict[str, Any]]:
    described = []
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        required = parameter.default is parameter.empty
        default = None if required else _plain(parameter.default)
        described.append(
            {"name": name, "type": annotation_text(parameter.annotation), "required": required, "default": default}
        )
    return described


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {str(key): _plain(element) for key, element in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _declared(declaration: Declaration) -> dict[str, Any]:
    """The fields that differ from what a plain function of this kind has."""
    plain = declare(declaration.kind)
    return {
        field.name: _plain(getattr(declaration, field.name))
        for field in dataclasses.fields(declaration)
        if getattr(declaration, field.name) != getattr(plain, field.name)
    }
