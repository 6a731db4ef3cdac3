"""The completions table: every rollout of a batch with its scores, printed and kept as parquet."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..collected import Collected, Report
from ..writing import Mode
from .table_sinks import IMAGES, Sink

FIXED_COLUMNS = ("step", "prompt", "completion", "advantage")


@dataclass(frozen=True, slots=True)
class Table:
    """N rollouts by column. Columns are equally long; a value that is absent is None."""

    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def completions_table(collected: Collected, step: int) -> Table:
    """The batch of all ranks: step, prompt, completion, each reward's scores, extra columns, reward, advantage."""
    reports = collected.reports
    texts = [pair for report in reports for pair in report.texts or ()]
    scores = [row for report in reports for row in report.table.scores]
    images = [list(found) for report in reports for found in report.images or ()]
    return Table(
        {
            "step": [step] * len(texts),
            "prompt": [prompt for prompt, _ in texts],
            "completion": [completion for _, completion in texts],
            **{name: [row[place] for row in scores] for place, name in enumerate(collected.names)},
            **_extra_columns(reports),
            "advantage": collected.advantages.values.tolist(),
            **({IMAGES: images} if any(images) else {}),
        }
    )


def _extra_columns(reports: Sequence[Report]) -> dict[str, list[Any]]:
    """What rewards logged, of all ranks; None for the rows of a rank that has no such column.

    A column that two rewards use, on one rank or on two, is `{reward}/{column}`.
    """
    logged = dict.fromkeys(key for report in reports for key in report.table.logged)
    columns = dict.fromkeys(name for report in reports for name in report.table.columns)
    uses = Counter(column for _, column in logged)
    own: dict[str, list[Any]] = {}
    for reward, column in logged:
        long = f"{reward}/{column}"
        own[long if uses[column] > 1 or long in columns else column] = _joined(
            [(report.table.logged.get((reward, column)), len(report.lengths)) for report in reports]
        )
    known = {name for reward, column in logged for name in (column, f"{reward}/{column}")}
    others = {
        name: _joined([(report.table.columns.get(name), len(report.lengths)) for report in reports])
        for name in columns
        if name not in known
    }
    return own | others


def _joined(parts: Sequence[tuple[Sequence[Any] | None, int]]) -> list[Any]:
    """The values of each rank one after another, None where a rank has none."""
    return [value for values, count in parts for value in (values if values is not None else [None] * count)]


def joined(tables: Sequence[Table]) -> Table:
    """Tables under one another; a column that one of them lacks is None there."""
    names = dict.fromkeys(name for table in tables for name in table.columns)
    return Table(
        {name: [value for table in tables for value in table.columns.get(name, [None] * len(table))] for name in names}
    )


@dataclass(slots=True)
class CompletionsLog:
    """Holds what is to be shown at the next log: the newest training batch, and all batches of an evaluation.

    Files: `folder/train_00010.parquet` and `folder/eval_00010.parquet`. `to_print`: how many random rows are printed,
    None = all, 0 = none. `sinks`: who else is shown them. `unique_prompts`: show one row a prompt; files hold all.
    """

    folder: Path
    to_print: int | None = None
    unique_prompts: bool = False
    sinks: Sequence[Sink] = ()
    pending: dict[str, list[Table]] = field(default_factory=lambda: {"train": [], "eval": []})

    def add(self, collected: Collected, mode: Mode, step: int) -> None:
        """Take over a batch."""
        table = completions_table(collected, step)
        self.pending[mode] = [*self.pending[mode], table] if mode == "eval" else [table]

    def flush(self, mode: Mode, step: int) -> None:
        """Write and print what is held, if anything, and forget it."""
        tables, self.pending[mode] = self.pending[mode], []
        if not tables:
            return
        table = joined(tables)
        write_parquet(_texts(table), self.folder / f"{mode}_{step:05d}.parquet")
        shown = _first_of_each_prompt(table) if self.unique_prompts else table
        for sink in self.sinks:
            sink(shown.columns, mode, step)
        if self.to_print != 0:
            print_table(_texts(shown), title=f"{mode} step {step}", rows=self.to_print)

    def rewind(self, step: int) -> None:
        """Remove files of steps after `step`."""
        for path in self.folder.glob("*_*.parquet"):
            number = path.stem.rpartition("_")[2]
            if number.isdigit() and int(number) > step:
                path.unlink()

    def held(self) -> dict[str, list[Any]]:
        """The columns of the tables that wait for the next log, by mode."""
        return {mode: [dict(_texts(table).columns) for table in tables] for mode, tables in self.pending.items()}

    def hold(self, held: Mapping[str, Sequence[Any]]) -> None:
        """Wait with these tables, as `held` gave them."""
        self.pending = {mode: [Table(columns) for columns in held.get(mode, [])] for mode in ("train", "eval")}


def _texts(table: Table) -> Table:
    """The table as files and terminals show it: without images."""
    return Table({name: values for name, values in table.columns.items() if name != IMAGES})


def write_parquet(table: Table, path: Path) -> None:
    """Write with a type for each column; a column of mixed or foreign types is kept as JSON text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: _array(pa, list(values)) for name, values in table.columns.items()}
    beside = path.with_name(f".{path.name}.new")
    pq.write_table(pa.table(arrays), beside)
    os.replace(beside, path)


def print_table(table: Table, *, title: str, rows: int | None) -> None:
    """Print random rows of the table; its prompts and completions as text."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

    shown = list(range(len(table)))
    if rows is not None and rows < len(shown):
        # A generator of its own: printing must not change what a seeded run draws.
        shown = sorted(random.Random(f"{title}").sample(shown, rows))
    printed = RichTable(title=title, show_lines=True, expand=True)
    names = [name for name in table.columns if name != "step"]
    for name in names:
        printed.add_column(name.title() if name in FIXED_COLUMNS else name)
    for place in shown:
        printed.add_row(*(RichText(_shown(table.columns[name][place])) for name in names))
    Console().print(printed)


def _array(pa: Any, values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array(
            [None if value is None else json.dumps(value, default=str, ensure_ascii=False) for value in values]
        )


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list) and value and isinstance(value[0], dict) and "role" in value[0]:
        return "\n".join(f"{message['role']}: {message.get('content')}" for message in value)
    return str(value)


def _first_of_each_prompt(table: Table) -> Table:
    first = {str(prompt): place for place, prompt in reversed(list(enumerate(table.columns["prompt"])))}
    keep = sorted(first.values())
    return Table({name: [values[place] for place in keep] for name, values in table.columns.items()})
