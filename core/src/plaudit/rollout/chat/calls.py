"""One call of a tool, and how it is read from JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...strict_json import BadJson, parse_json


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a completion makes.

    `error` is None, or says why what is marked as a call cannot be read as one; `name` and `arguments` are then what
    could be read. `id` joins the call with the message that answers it.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    error: str | None = None

    def as_message(self) -> dict[str, Any]:
        """The call as an entry of a message's `tool_calls`."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


class MalformedCall(ValueError):
    """Something that is marked as a call but cannot be read as one."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name

    def as_call(self) -> ToolCall:
        """The call with its error."""
        return ToolCall(self.name, error=str(self))


def call_from(value: Any, repair: bool = False) -> ToolCall:
    """A call from its JSON form: `{"name", "arguments" | "parameters"}`, or OpenAI's `{"function": {…}}` around it.

    Arguments may be an object or a string that holds one. With `repair` that string may be a Python literal. Raises
    MalformedCall.
    """
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        value = value["function"]
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or not value["name"]:
        raise MalformedCall("a call needs a 'name'")
    name = value["name"]
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        try:
            arguments = read_json(arguments, repair) if arguments.strip() else {}
        except MalformedCall as error:
            raise MalformedCall(f"the arguments of {name!r} are {error}", name) from error
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise MalformedCall(f"the arguments of {name!r} are not an object", name)
    return ToolCall(name, dict(arguments))


def calls_from(value: Any, repair: bool = False) -> list[ToolCall]:
    """The calls of a JSON value, a call or a list of them; one that is malformed becomes a call with an error."""
    return [attempt(one, repair) for one in (value if isinstance(value, list) else [value])]


def attempt(value: Any, repair: bool = False) -> ToolCall:
    """`call_from`, with the error in the call instead of raised."""
    try:
        return call_from(value, repair)
    except MalformedCall as error:
        return error.as_call()


def read_json(source: str, repair: bool = False) -> Any:
    """A strict JSON value; with `repair`, a Python literal too. Raises MalformedCall."""
    try:
        return parse_json(source)
    except BadJson as error:
        if repair:
            import ast

            try:
                return ast.literal_eval(source.strip())
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                pass  # not a literal either: report what JSON said
        raise MalformedCall(f"not strict JSON: {error}") from error


def numbered(calls: Sequence[ToolCall], seed: Sequence[int]) -> list[ToolCall]:
    """The calls with ids of nine letters and digits, as the strictest template wants them; equal seeds, equal ids."""
    import hashlib

    stem = hashlib.sha256(repr(tuple(seed)).encode()).hexdigest()[:6]
    return [replace(call, id=f"{stem}{place:03d}") for place, call in enumerate(calls)]
