"""A few completions with their scores, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plaudit.types import Text

if TYPE_CHECKING:
    from rich.table import Table


def samples_table(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """A row a completion: prompt, completion, each reward's score ("–" where it abstains), the reward."""
    from rich.table import Table
    from rich.text import Text as Plain

    table = Table(show_lines=True)
    for name in ("prompt", "completion", *names, "reward"):
        table.add_column(name, overflow="fold", justify="left" if name in ("prompt", "completion") else "right")
    for record in records:
        texts = [Plain(plain_text(record[key])) for key in ("prompt", "completion")]
        scores = [Plain(show_score(record.get(name))) for name in (*names, "reward")]
        table.add_row(*texts, *scores)
    return table


def plain_text(value: Text) -> str:
    """A string as it is; a conversation as one line a message."""
    if isinstance(value, str):
        return value
    return "\n".join(f"{message.get('role')}: {message.get('content')}" for message in value)


def show_score(value: float | None) -> str:
    """Three decimals, or a dash for no score."""
    return "–" if value is None else f"{value:.3f}"
