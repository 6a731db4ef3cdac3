"""The `json` verifier, and the strict parser that other verifiers share.

`parse_json(text)`, `parse_json_prefix(text, start)` and `find_json(text)` are public.
"""

from plaudit_json.extract import find_json
from plaudit_json.strict import BadJson, parse_json, parse_json_prefix, same_value

__all__ = ["BadJson", "find_json", "parse_json", "parse_json_prefix", "same_value"]
