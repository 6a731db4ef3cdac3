"""The `toolcall` verifier. `parse_calls(completion)` is public, for agents that read the same formats."""

from plaudit_toolcall.parse import Parsed, parse_calls

__all__ = ["Parsed", "parse_calls"]
