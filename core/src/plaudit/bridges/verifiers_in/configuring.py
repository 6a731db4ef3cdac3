"""The EnvConfig of a taskset's environment: this machine where no runtime is named, and one seat for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.importing import describe_error

LOCAL = {"type": "subprocess"}


def configured(name: str, fields: Mapping[str, Any]) -> Any:
    """The environment of verifiers. Raises UsageError on fields that it does not take, and on what cannot run here."""
    from verifiers.v1.configs.agent import agent_config_fields
    from verifiers.v1.utils.loaders import env_config_type, load_environment, resolve_env_config

    try:
        roles = agent_config_fields(env_config_type(name, fields.get("id") or "")())
        placed = {role: {"runtime": LOCAL, **(fields.get(role) or {})} for role in roles}
        config = resolve_env_config({**fields, **placed})
        environment = load_environment(config)
    except Exception as error:
        raise UsageError(f"verifiers: the environment of {name!r} cannot be made: {describe_error(error)}") from error
    _check_seats(name, agent_config_fields(config))
    for role, spec in agent_config_fields(config).items():
        _check_harness(role, environment, spec, named="runtime" in (fields.get(role) or {}))
    return environment


def _check_seats(name: str, roles: Mapping[str, Any]) -> None:
    mine = [role for role, spec in roles.items() if spec.client is None]
    if len(mine) != 1:
        raise UsageError(
            f"verifiers: the environment of {name!r} has the seats {', '.join(roles)}; exactly one is the model that "
            f"learns, and the others need a client each (env = {{{(mine or list(roles))[-1]} = {{client = …}}}})"
        )


def _check_harness(role: str, environment: Any, spec: Any, *, named: bool) -> None:
    harness = environment._harnesses[role]
    if not named and harness.EXECUTES_CODE:
        raise UsageError(
            f"verifiers: the harness {harness.config.id!r} of {role} runs what the model writes; say where: "
            f'env = {{{role} = {{runtime = {{type = "docker"}}}}}}, or another harness, '
            f'env = {{{role} = {{harness = {{id = "null"}}}}}}'
        )
