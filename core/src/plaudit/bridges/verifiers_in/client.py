"""A model's client of verifiers before 0.4 that asks the policy here."""

from __future__ import annotations

from typing import Any

from plaudit.types import Message

from ..episodes import EpisodeOver, Policy, Written


def schema_of(tool: Any) -> dict[str, Any]:
    """A tool of verifiers as a function schema."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def client_of(policy: Policy) -> Any:
    """A client of verifiers that asks the policy."""
    from verifiers.clients import Client

    import verifiers

    class PolicyClient(Client):
        """Asks for turns; what a request to a model's server is made of is not needed."""

        def setup_client(self, config: Any) -> Any:
            return policy

        async def get_response(self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **_: Any) -> Any:
            try:
                asked = [_dumped(message) for message in prompt]
                written = await policy.ask(asked, [schema_of(tool) for tool in tools or []])
            except EpisodeOver as error:
                raise verifiers.OverlongPromptError(str(error)) from error
            return _response(written)

        async def to_native_tool(self, tool: Any) -> Any:
            return tool

        async def to_native_prompt(self, messages: Any) -> Any:
            return messages, {}

        async def get_native_response(self, prompt: Any, model: str, *more: Any, **_: Any) -> Any:
            raise NotImplementedError("only get_response is asked")

        async def raise_from_native_response(self, response: Any) -> None:
            return None

        async def from_native_response(self, response: Any) -> Any:
            return response

        async def close(self) -> None:
            return None

    return PolicyClient(policy)


def _dumped(message: Any) -> Message:
    """A message of verifiers in OpenAI's form."""
    found = {name: value for name, value in message.model_dump().items() if value is not None}
    if found.get("tool_calls"):
        found["tool_calls"] = [
            {"id": one["id"], "type": "function", "function": {"name": one["name"], "arguments": one["arguments"]}}
            for one in found["tool_calls"]
        ]
    return found


def _response(written: Written) -> Any:
    """A turn as verifiers reads a response."""
    from verifiers.types import Response, ResponseMessage, ToolCall, Usage

    said, count = written.message, len(written.completion_ids)
    calls = [ToolCall(id=one["id"], **one["function"]) for one in said.get("tool_calls") or []]
    message = ResponseMessage(
        content=said["content"],
        reasoning_content=said.get("reasoning_content"),
        tool_calls=calls or None,
        finish_reason=written.finish_reason,
        is_truncated=written.finish_reason == "length",
    )
    usage = Usage(
        prompt_tokens=written.context_tokens,
        reasoning_tokens=0,
        completion_tokens=count,
        total_tokens=written.context_tokens + count,
    )
    return Response(id="turn", created=0, model="policy", usage=usage, message=message)
