"""Tables of names are written as one string of words."""

from __future__ import annotations


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def numbered(text: str) -> dict[str, int]:
    """Each name with its place in the text, from 0."""
    return {name: place for place, name in enumerate(text.split())}
