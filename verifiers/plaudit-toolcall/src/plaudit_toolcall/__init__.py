"""The `toolcall` verifier. `parse_calls(completion)` is public, for agents that read the same formats."""

from plaudit_toolcall.parse import Call, Parsed, parse_calls

__all__ = ["Call", "Parsed", "parse_calls"]
