"""Random conversations with tools, for comparing templates."""

from __future__ import annotations

import random
from typing import Any

from plaudit.rollout.chat import function_schema

WORDS = ["add", "the", "café", "二", '"quoted"', "a\nb", "{x}", "<b>", "1.5", "don't", "  two  spaces", "\\n"]


def search(query: str, limit: int = 3, strict: bool = False, tags: list[str] | None = None) -> str:
    """Search the archive.

    Args:
        query: What to look for.
        limit: How many results at most.
        strict: Whether every word must match.
        tags: Only entries with these tags.
    """
    return query


def clock() -> str:
    """Tell the time."""
    return "noon"


SCHEMAS = [function_schema(search), function_schema(clock)]


def words(rng: random.Random, most: int = 5) -> str:
    """Some text, perhaps none."""
    return " ".join(rng.choices(WORDS, k=rng.randint(0, most))).strip()


def arguments(rng: random.Random) -> dict[str, Any]:
    """Arguments of `search`."""
    made: dict[str, Any] = {"query": words(rng) or "x"}
    if rng.random() < 0.5:
        made["limit"] = rng.randint(-3, 10**6)
    if rng.random() < 0.3:
        made["strict"] = rng.random() < 0.5
    if rng.random() < 0.3:
        made["tags"] = rng.choices(["a", "b,c", "d]", "é"], k=2)
    return made


def call(rng: random.Random, place: int) -> dict[str, Any]:
    """One call as a message holds it."""
    name = rng.choice(["search", "clock"])
    function = {"name": name, "arguments": arguments(rng) if name == "search" else {}}
    return {"id": f"call{place:05d}", "type": "function", "function": function}


def assistant(rng: random.Random, *, most_calls: int, reasoning: bool, content: bool = True) -> dict[str, Any]:
    """An assistant's turn with calls."""
    message: dict[str, Any] = {"role": "assistant", "content": words(rng) if content else ""}
    if reasoning and rng.random() < 0.5:
        message["reasoning_content"] = words(rng) or "hm"
    return message | {"tool_calls": [call(rng, place) for place in range(rng.randint(1, most_calls))]}


def answers(rng: random.Random, message: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools' messages for an assistant's calls."""
    calls = message["tool_calls"]
    return [
        {"role": "tool", "name": one["function"]["name"], "tool_call_id": one["id"], "content": words(rng) or "ok"}
        for one in calls
    ]


def conversation(
    rng: random.Random, *, rounds: int, most_calls: int = 2, reasoning: bool = True
) -> list[dict[str, Any]]:
    """A user's question, rounds of tools, and perhaps an answer and another question."""
    turns: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        turns.append({"role": "system", "content": words(rng) or "Be brief."})
    turns.append({"role": "user", "content": words(rng) or "hi"})
    for _ in range(rounds):
        message = assistant(rng, most_calls=most_calls, reasoning=reasoning)
        turns += [message, *answers(rng, message)]
    if rng.random() < 0.5:
        turns.append({"role": "assistant", "content": words(rng) or "done"})
        if rng.random() < 0.5:
            turns.append({"role": "user", "content": words(rng) or "more"})
    return turns
