"""A batch in which one rollout goes wrong, and what must be reported of it."""

from __future__ import annotations

N = 6
VICTIM = 2


def batch(fault: str) -> list[str]:
    return [fault if i == VICTIM else f"fine {i}" for i in range(N)]


def expect(table, kind: str | None, k: int = 0) -> None:
    """Only the victim is without a score, and its failure is reported and counted."""
    column = [row[k] for row in table.scores]
    assert column == [1.0 if i != VICTIM or kind is None else None for i in range(N)]
    assert [(f.rollouts, f.kind) for f in table.failures] == ([] if kind is None else [((VICTIM,), kind)])
    name = table.names[k]
    assert table.runtime[f"scoring/{name}/failures"] == (0 if kind is None else 1)
    if kind is not None:
        assert table.runtime[f"scoring/{name}/failures/{kind}"] == 1
        assert table.columns[f"{name}/failure"][VICTIM].startswith(kind)
