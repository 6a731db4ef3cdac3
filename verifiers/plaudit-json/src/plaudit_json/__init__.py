"""The `json` verifier, and the finding of JSON in text that other verifiers share.

`find_json(text)` and `fences(text)` are public; the strict parser is `plaudit.parse_json`.
"""

from plaudit_json.extract import fences, find_json

__all__ = ["fences", "find_json"]
