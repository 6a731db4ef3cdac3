"""The names that Plaudit's own distributions bring, so that an unknown name can say what to install."""

from __future__ import annotations

FIRST_PARTY = {
    "plaudit-math": ("math",),
    "plaudit-code": ("code",),
    "plaudit-choice": ("choice",),
    "plaudit-json": ("json",),
    "plaudit-toolcall": ("toolcall",),
    "plaudit-sql": ("sql",),
    "plaudit-ifeval": ("ifeval",),
    "plaudit-match": ("exact", "regex", "numeric", "f1"),
    "plaudit-text": ("format", "length", "repetition", "language", "style", "diversity"),
    "plaudit-judge": ("judge",),
    "plaudit-rewardmodel": ("rewardmodel",),
    "plaudit-sandbox": ("local", "docker", "e2b"),
    "plaudit-quickstart": ("addition",),
}


def distribution_with(name: str) -> str | None:
    """The distribution of ours that brings a component of this name, None when none does."""
    return next((distribution for distribution, names in FIRST_PARTY.items() if name in names), None)
