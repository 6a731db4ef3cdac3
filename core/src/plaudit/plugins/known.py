"""The names that Plaudit's own distributions bring, so that an unknown name can say what to install.

A test of the workspace compares this table with the entry points of its distributions.
"""

from __future__ import annotations

FIRST_PARTY = {
    "plaudit": ("verl", "nemo_gym", "verifiers", "ors", "openenv", "harbor"),
    "plaudit-math": ("math",),
    "plaudit-code": ("code",),
    "plaudit-choice": ("choice",),
    "plaudit-json": ("json",),
    "plaudit-toolcall": ("toolcall",),
    "plaudit-sql": ("sql",),
    "plaudit-ifeval": ("ifeval",),
    "plaudit-match": ("exact", "regex", "numeric", "f1"),
    "plaudit-text": (
        "format", "think_format", "think_answer_format", "incremental_format", "xml_count", "soft_overlong",
        "cosine_scaled", "target_length", "repetition", "language", "style", "diversity",
    ),
    "plaudit-judge": ("judge", "judge_score", "judge_verdict", "judge_pairwise", "judge_ranking"),
    "plaudit-rewardmodel": ("reward_model",),
    "plaudit-sandbox": ("local", "docker", "e2b", "sandbox"),
    "plaudit-gym": (
        "calculator", "guess_number", "grid_walk", "python_sandbox", "sqlite_questions", "puzzle", "gym:arithmetic",
        "gym:products", "gym:programs", "gym:shop", "reasoning_gym:*", "tool_user",
    ),
    "plaudit-quickstart": (
        "addition", "larger", "quickstart", "smollm2", "quickstart:addition", "quickstart:larger",
        "quickstart:larger_in_words",
    ),
}  # fmt: skip


def distribution_with(name: str) -> str | None:
    """The distribution of ours that brings a component of this name, None when none does."""
    return next((distribution for distribution, names in FIRST_PARTY.items() if name in names), None)
