"""The rows of a run as a dataset of TRL's, each with the very values that it has here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ROW = "plaudit_row"
"""The column that says which row it is. No reward and no environment sees it."""


class Records:
    """Rows by their number. A table of Arrow would change them: dictionaries get others' keys, tuples become lists."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.records = list(records)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The columns of the rows that `batch` names."""
        found = [self.records[number] for number in batch[ROW]]
        columns = {name: [record[name] for record in found] for name in found[0]} if found else {}
        return {**columns, ROW: list(batch[ROW])}

    def __getstate__(self) -> dict[str, Any]:
        return {"records": self.records}


def as_dataset(records: Sequence[Mapping[str, Any]], *, only_prompts: bool) -> Any:
    """A datasets.Dataset over the rows; with `only_prompts` of their prompts alone."""
    from datasets import Dataset

    shown = [{"prompt": record["prompt"]} for record in records] if only_prompts else records
    return Dataset.from_dict({ROW: list(range(len(shown)))}).with_transform(Records(shown))
