"""What a completion's text is held to, for every generator. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from ..errors import UsageError
from .values import are_texts

Kind = Literal["regex", "json", "choice"]
KINDS: tuple[Kind, ...] = ("regex", "json", "choice")


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """The language that completions are held to: exactly one of these is set.

    `regex`: the whole text matches this regular expression. `json`: a JSON schema, as a mapping, that the text
    fulfils. `choice`: the text is one of these strings. The completion ends when the text is complete.
    """

    regex: str | None = None
    json: Mapping[str, Any] | None = None
    choice: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Raise UsageError unless exactly one is set, to a value of its type."""
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise UsageError(
                f"structured output takes exactly one of {', '.join(KINDS)}; given: {', '.join(given) or 'none'}"
            )
        holds, wanted = {
            "regex": (isinstance(self.regex, str) and bool(self.regex), "a regular expression, not empty"),
            "json": (isinstance(self.json, Mapping), "a JSON schema as a mapping"),
            "choice": (are_texts(self.choice) and bool(self.choice), "a list of strings, each not empty"),
        }[given[0]]
        if not holds:
            raise UsageError(f"structured output: {given[0]} is {getattr(self, given[0])!r}; it must be {wanted}")

    @property
    def kind(self) -> Kind:
        """Which of the three is set."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> StructuredOutput:
        """From a mapping such as {"regex": "[0-9]+"}. Raises UsageError on an unknown name or a value out of place."""
        if not isinstance(given, Mapping):
            raise UsageError(f"structured output is {given!r}; it must be a mapping with one of {', '.join(KINDS)}")
        for name in given:
            if name not in KINDS:
                close = get_close_matches(name, KINDS, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"it takes one of {', '.join(KINDS)}"
                raise UsageError(f"structured output has no {name!r}; {hint}")
        choice: Any = given.get("choice")
        if isinstance(choice, Sequence) and not isinstance(choice, str):
            choice = tuple(choice)
        return cls(given.get("regex"), given.get("json"), choice)
