"""What a field of GRPOConfig may hold by its declaration, before its value is looked at."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, get_type_hints

from ...run.typecheck import describe, fits
from ..fields import GenerationFields, LoggingFields, LossFields, ModelFields, VLLMFields
from .checks import ConfigError

_SECTIONS = (ModelFields, GenerationFields, LossFields, LoggingFields, VLLMFields)
_COUNTS = ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps")
"""Of the Trainer's fields, those that batches are made of."""
_MORE: dict[str, type] = {"scale_rewards": bool, "top_k": type(None)}
"""Values in other spellings that TRL takes as well."""
_ENDLESS = (
    "epsilon",
    "epsilon_high",
    "delta",
    "off_policy_mask_threshold",
    "vllm_importance_sampling_clip_max",
    "vllm_importance_sampling_cap",
    "vllm_server_timeout",
    "vllm_request_timeout",
)
"""Limits, which infinity lifts."""


def check_types(config: Any) -> None:
    """Raise ConfigError, naming field, value and what it must be, for the first value of a wrong type."""
    for name, declared in _declared(type(config)).items():
        value = getattr(config, name)
        if not fits(value, declared) and not isinstance(value, _MORE.get(name, ())):
            optional = ", or None" if fits(None, declared) else ""
            hint = f"; write the number {value} without quotes" if _is_number(value) else ""
            raise ConfigError(f"{name} is {value!r}; it must be {describe(declared)}{optional}{hint}.")
        numbers = value if isinstance(value, list) else [value]
        for number in numbers:
            if isinstance(number, float) and not (math.isfinite(number) or (number > 0 and name in _ENDLESS)):
                raise ConfigError(f"{name} is {value!r}; it must be finite.")
        if isinstance(value, str) and fits({}, declared):
            _check_json(name, value)
    for name in _COUNTS:
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be at least 1.")


def _declared(config_class: type) -> Mapping[str, Any]:
    """The type of each field of TRL's and ours, and of the Trainer's that batches are made of."""
    hints = get_type_hints(config_class)
    own = [field.name for section in _SECTIONS for field in dataclasses.fields(section)]
    return {name: hints[name] for name in (*_COUNTS, *own)}


def _check_json(name: str, text: str) -> None:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{name} is {text!r}; as text it must be a JSON object, such as '{{\"key\": 1}}'.")


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        return False
