"""The `json` verifier, and the strict parser that other verifiers share.

`parse_json(text)`, `parse_json_prefix(text, start)` `find_json(text)` and `fences(text)` are public.
"""

from plaudit_json.extract import fences, find_json
from plaudit_json.strict import BadJson, parse_json, parse_json_prefix, same_value

__all__ = ["BadJson", "fences", "find_json", "parse_json", "parse_json_prefix", "same_value"]
