"""Python values as JSON, by exact type. Runs on both sides of the sandbox's wall and executes nothing.

What JSON can say stands for itself; the rest is an object with one key that names its type. A value that is not plain
data becomes `{"o": type name}`, which equals nothing.
"""

import base64
import math

MAX_DEPTH = 100
MAX_ITEMS = 1_000_000


class Opaque:
    """A value that was no plain data; it equals nothing, itself included."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return False

    __hash__ = None

    def __repr__(self):
        return f"<{self.name}>"


def encode(value, depth=0):
    """The value as JSON values. Never raises."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -(2**53) < value < 2**53 else {"i": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"f": repr(value)}
    if depth > MAX_DEPTH:
        return {"o": "a value nested too deeply"}
    if kind is list:
        return {"l": [encode(one, depth + 1) for one in value[:MAX_ITEMS]]}
    if kind is tuple:
        return {"t": [encode(one, depth + 1) for one in value[:MAX_ITEMS]]}
    if kind is dict:
        return {"d": [[encode(key, depth + 1), encode(one, depth + 1)] for key, one in value.items()]}
    if kind is set or kind is frozenset:
        return {"s": [encode(one, depth + 1) for one in value]}
    if kind is bytes or kind is bytearray:
        return {"b": base64.b64encode(value).decode()}
    if kind is complex:
        return {"c": [encode(value.real), encode(value.imag)]}
    return _converted(value, kind, depth)


def _converted(value, kind, depth):
    """Subclasses of plain types, and numpy's values, by the plain type's own methods."""
    try:
        if isinstance(value, int):
            return encode(int.__add__(value, 0), depth + 1)
        if isinstance(value, float):
            return encode(float.__add__(value, 0.0), depth + 1)
        if isinstance(value, str):
            return str.__str__(value)[:]
        if isinstance(value, tuple):
            return encode(tuple(tuple.__iter__(value)), depth + 1)
        if isinstance(value, list):
            return encode(list(list.__iter__(value)), depth + 1)
        if isinstance(value, dict):
            return encode(dict(dict.items(value)), depth + 1)
        if kind.__module__ == "numpy" and hasattr(value, "tolist"):
            return encode(value.tolist(), depth + 1)
        if kind.__module__ == "collections" and kind.__name__ == "deque":
            return encode(list(value), depth + 1)
    except Exception:
        return {"o": "a value whose conversion raised"}
    return {"o": str(kind.__name__)[:80]}


def decode(value):
    """The Python value behind `encode`'s JSON. Raises ValueError on what `encode` never writes."""
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise ValueError("a bare list is not an encoded value")
        return value
    if len(value) != 1:
        raise ValueError("an encoded value has one key")
    ((tag, inside),) = value.items()
    if tag == "l":
        return [decode(one) for one in inside]
    if tag == "t":
        return tuple(decode(one) for one in inside)
    if tag == "d":
        return {_key(decode(key)): decode(one) for key, one in inside}
    if tag == "s":
        return {_key(decode(one)) for one in inside}
    if tag == "i":
        return int(inside, 16)
    if tag == "f":
        return float(inside)
    if tag == "b":
        return base64.b64decode(inside)
    if tag == "c":
        return complex(decode(inside[0]), decode(inside[1]))
    if tag == "o":
        return Opaque(str(inside))
    raise ValueError(f"unknown tag {tag!r}")


def _key(value):
    """A hashable stand-in: lists and sets cannot be keys, and a candidate may have made a dict that claims they are."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
