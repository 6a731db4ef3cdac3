"""Finding the query in a completion."""

from __future__ import annotations

import re

from plaudit_json import fences

_QUERY = re.compile(r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(?:select|with|values)\b", re.IGNORECASE | re.DOTALL)
_TAGS = ("sql", "sqlite", "sqlite3")


def find_query(text: str) -> str:
    """The last block tagged sql, else the last untagged block that opens like a query, else the whole text."""
    blocks = fences(text)
    tagged = [block.body for block in blocks if block.tag in _TAGS]
    if tagged:
        return tagged[-1].strip()
    untagged = [block.body for block in blocks if not block.tag and _QUERY.match(block.body)]
    if untagged:
        return untagged[-1].strip()
    answer = re.search(r"<answer>((?:(?!<answer>).)*)</answer>\s*$", text[-20_000:], re.DOTALL)
    return (answer.group(1) if answer else text).strip()


def same_text(left: str, right: str) -> bool:
    """The same query up to blanks, a final semicolon, and the case of what is not quoted."""
    folded = [
        [token if token[0] in "'\"`[" else token.lower() for token, _ in _tokens(query)] for query in (left, right)
    ]
    return [token for token in folded[0] if token != ";"] == [token for token in folded[1] if token != ";"]


def with_tie_breaker(query: str, columns: int, direction: str) -> str | None:
    """The query with its own result columns as the last keys of its outermost ORDER BY; None if it has none.

    `direction` is ASC or DESC: rows that the query leaves tied come out in opposite orders.
    """
    depth, order_end, ordered = 0, None, False
    tokens = [(token, start) for token, start in _tokens(query) if token != ";"]
    for (token, start), (following, _) in zip(tokens, [*tokens[1:], ("", 0)], strict=True):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth == 0 and token.lower() == "order" and following.lower() == "by":
            ordered, order_end = True, None
        elif depth == 0 and ordered and order_end is None and token.lower() == "limit":
            order_end = start
    if not ordered:
        return None
    last, last_start = tokens[-1]
    cut = last_start + len(last) if order_end is None else order_end
    keys = ", ".join(f"{column} {direction}" for column in range(1, columns + 1))
    return f"{query[:cut]} , {keys} {query[cut:].rstrip().rstrip(';')}".rstrip()


_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|\w+|[^\w\s]""", re.DOTALL)


def _tokens(query: str) -> list[tuple[str, int]]:
    """Tokens and where they begin, comments left out."""
    found = ((match.group(), match.start()) for match in _TOKEN.finditer(query))
    return [(token, start) for token, start in found if not token.startswith(("--", "/*"))]
