"""JSON Schema validation without network access and without runaway patterns."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

from plaudit_json.patterns import PatternTrouble, pattern_found


class BadSchema(ValueError):
    """The schema itself cannot be used: malformed, or it refers to something outside itself."""


def schema_error(value: Any, schema: Any, *, check_formats: bool = False) -> str | None:
    """Why `value` breaks `schema` (the draft that `$schema` names, by default 2020-12), or None. Raises BadSchema."""
    from jsonschema.exceptions import SchemaError, best_match
    from referencing.exceptions import Unresolvable

    validator_class = _validator_class(str(schema.get("$schema", "")) if isinstance(schema, dict) else "")
    try:
        validator_class.check_schema(schema)
        checker = validator_class.FORMAT_CHECKER if check_formats else None
        validator = validator_class(schema, registry=_closed_registry(), format_checker=checker)
        error = best_match(validator.iter_errors(value))
    except (SchemaError, Unresolvable, PatternTrouble) as error:
        raise BadSchema(str(error).split("\n", 1)[0]) from error
    except RecursionError as error:
        raise BadSchema("the schema refers to itself without end") from error
    return None if error is None else f"{error.json_path}: {error.message}"[:300]


@lru_cache(maxsize=16)
def _validator_class(dialect: str) -> Any:
    from jsonschema import validators

    base = validators.validator_for({"$schema": dialect}, default=validators.Draft202012Validator)
    own = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "multipleOf": _multiple_of,
    }
    return validators.extend(base, own)


@lru_cache(maxsize=1)
def _closed_registry() -> Any:
    """Only the meta-schemas: a reference to anything else is unresolvable instead of a request."""
    from jsonschema_specifications import REGISTRY

    return REGISTRY


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Any:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "string") and not pattern_found(pattern, instance):
        yield ValidationError(f"{instance[:80]!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _schema: Any) -> Any:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            if pattern_found(pattern, key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: dict[str, Any]) -> Any:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(instance, "object"):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras = [key for key in instance if key not in named and not any(pattern_found(p, key) for p in patterns)]
    if validator.is_type(allowed, "object"):
        for key in extras:
            yield from validator.descend(instance[key], allowed, path=key)
    elif not allowed and extras:
        yield ValidationError(f"properties that are not allowed: {', '.join(sorted(extras))}")


def _multiple_of(validator: Any, factor: Any, instance: Any, _schema: Any) -> Any:
    """In decimal, as it is written: 0.3 is a multiple of 0.1."""
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "number"):
        quotient = Decimal(repr(instance)) / Decimal(repr(factor))
        if quotient != quotient.to_integral_value():
            yield ValidationError(f"{instance!r} is not a multiple of {factor!r}")
