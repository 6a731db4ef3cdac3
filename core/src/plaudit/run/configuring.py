"""`[config]` into a GRPOConfig: names, types and the checks between fields, before anything is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

from plaudit.errors import PlauditError, UsageError
from plaudit.run.parsing import check_value
from plaudit.run.schema import RunFile
from plaudit.run.typecheck import closest

# The run folder has its own metrics.jsonl and progress bar; both can be switched on again.
_DEFAULTS = {"report_to": "none", "disable_tqdm": True}


def make_config(run: RunFile) -> Any:
    """The GRPOConfig of a run. Raises UsageError on an unknown field, a wrong type or values that clash."""
    from plaudit.grpo.config import GRPOConfig

    values = config_values(run)
    try:
        return GRPOConfig(**values)
    except PlauditError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(f"[config] {' '.join(str(error).split())}") from error


def config_values(run: RunFile) -> dict[str, Any]:
    """The fields of GRPOConfig that a run sets. Raises UsageError on an unknown one or a wrong type."""
    from plaudit.grpo.checking.checks import refuse_removed
    from plaudit.grpo.config import GRPOConfig

    refuse_removed(run.config)
    given = dict(run.config)
    if isinstance(given.get("scale_rewards"), bool):  # declared as text for the command line, and also a switch
        given["scale_rewards"] = str(given["scale_rewards"])
    # Declared as text too, in its old form; the Trainer takes the switch.
    switches = {"fsdp"} if isinstance(given.get("fsdp"), bool) else set()
    check_fields({name: value for name, value in given.items() if name not in switches}, GRPOConfig, "config")
    values = {**_DEFAULTS, **given, "output_dir": run.output_dir}
    limits = {t.name: t.max_completion_length for t in run.tasks if t.max_completion_length is not None}
    if limits:
        values["task_max_completion_length"] = limits
    if run.model.model_init_kwargs or run.model.revision:
        revision = {"revision": run.model.revision} if run.model.revision else {}
        values["model_init_kwargs"] = {**run.model.model_init_kwargs, **revision}
    return values


def check_fields(values: Mapping[str, Any], target: type, where: str) -> None:
    """Raise UsageError for a name that is no field of the dataclass `target`, or a value that does not fit its type."""
    hints = get_type_hints(target)
    names = [field.name for field in dataclasses.fields(target) if field.init]
    for name, value in values.items():
        if name not in names:
            hint = closest(name, names) or f"; it takes the fields of {target.__name__}"
            raise UsageError(f"unknown key '{name}' in [{where}]{hint}")
        check_value(value, hints[name], f"{where}.{name}")
