"""The options of the verifier, in one record that every comparison carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Units = Literal["optional", "required", "ignore"]
Scope = Literal["final", "all"]


@dataclass(frozen=True, slots=True)
class Policy:
    """See the README for each option; the defaults are those of `verify`."""

    scope: Scope = "final"
    require_box: bool = False
    units: Units = "optional"
    convert_units: bool = True
    bare_percent: bool = True
    decimal_digits: int = 6
    gold_precision: bool = True
    rel_tol: float = 0.0
    ordered_lists: bool = False
    any_variable: bool = False
    log_base: Literal["10", "e"] = "10"
    strict_forms: bool = False
    timeout_s: float = 4.0
    is_time: bool = False
