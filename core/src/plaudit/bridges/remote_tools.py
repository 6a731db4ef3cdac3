"""Environment classes whose tools a server describes: a method for each tool, with the server's own schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError

Call = Callable[[Any, str, dict[str, Any]], Awaitable[Any]]
"""(instance, tool name, arguments) to what the model reads."""


def class_with_tools(name: str, base: type, schemas: Sequence[Mapping[str, Any]], call: Call) -> type:
    """A subclass of `base` with an async method for each function schema.

    Raises UsageError on a tool whose name is no Python name, or is one that `base` has already.
    """
    methods = {}
    for schema in schemas:
        tool = schema["function"]["name"]
        if not tool.isidentifier() or hasattr(base, tool):
            raise UsageError(f"{name}: a tool called {tool!r} cannot be offered; rename it on the server")
        methods[tool] = _method(tool, dict(schema), call)
    return type(name, (base,), {**methods, "tools": tuple(methods)})


def function_schema_of(name: str, description: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """The schema of a tool as chat templates take it, from its parts."""
    found = {"type": "object", "properties": {}, **(parameters or {})}
    return {"type": "function", "function": {"name": name, "description": description or name, "parameters": found}}


def _method(name: str, schema: dict[str, Any], call: Call) -> Callable[..., Any]:
    async def tool(self: Any, **arguments: Any) -> Any:
        return await call(self, name, arguments)

    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = schema["function"]["description"]
    tool.__tool_schema__ = schema  # type: ignore[attr-defined]
    return tool
