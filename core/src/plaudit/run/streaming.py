"""`[data] streaming = true`: rows that are read as training gets to them. Only the first are seen before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from plaudit.errors import UsageError
from plaudit.run.data import LoadedData, Record, prepare
from plaudit.run.origins import comes_from_plugin, load_records, stream_records
from plaudit.run.schema import DataSection, RunFile

SEEN_BEFORE = 256
"""Rows that are checked, measured and shown before training begins; as many are prepared at a time."""


@dataclass(frozen=True, slots=True)
class StreamedData(LoadedData):
    """As LoadedData, but `train` holds the first rows only; `stream` gives all of them, from the first again."""

    stream: Any = None

    def kept(self, fits: Callable[[Record], bool], why: str) -> StreamedData:
        """The rows for which `fits(row)` is true. Raises UsageError, naming `why`, when no row that was seen is."""
        train, heldout = ([row for row in rows if fits(row)] for rows in (self.train, self.heldout))
        if not train:
            raise UsageError(f"{why} drops each of the first {len(self.train)} rows; raise it")
        return StreamedData(train, heldout, self.stream.filter(fits))


def check_streaming(run: RunFile) -> None:
    """Raise UsageError where a run asks for what needs all rows at once."""
    for where, data in _other_sections(run):
        if data is not None and data.streaming:
            raise UsageError(f"{where}.streaming: only [data], or a stage's, can stream; leave it out here")
    sections = [("data", run.data)] + [(f"stage.{i}.data", stage.data) for i, stage in enumerate(run.stages)]
    for where, data in sections:
        if data is None or not data.streaming:
            continue
        if run.environments or run.tools:
            raise UsageError(f"{where}.streaming: rows for tools and environments are read at once; leave it out")
        if run.engine == "trl":
            raise UsageError(f'{where}.streaming: engine = "trl" gets its rows at once; leave one of them out')
        if data.path is None and comes_from_plugin(data):
            raise UsageError(f"{where}.streaming: the rows of the plugin '{data.name}' come at once; leave it out")


def open_stream(data: DataSection, *, where: str) -> StreamedData:
    """The stream of a `[data]` section, and its held-out rows: those named, else the first `eval_size`.

    Raises UsageError on a missing file, column, answer or prompt among the first rows; later ones end the run.
    """
    from datasets import IterableDataset

    heldout: list[Record] = []
    skipped = 0
    if data.eval_path or data.eval_split:
        heldout = prepare(load_records(data, where, heldout=True)[: data.eval_size], data, where)
    elif data.eval_size:
        skipped = data.eval_size
        heldout = list(islice(_rows(replace(data, max_rows=None), where, 0), skipped))
    train = list(islice(_rows(data, where, skipped), SEEN_BEFORE))
    if not train:
        raise UsageError(f"{where}.eval_size = {skipped}, but there are no more rows; hold out fewer")
    given = {"data": data, "where": where, "skipped": skipped}
    return StreamedData(train, heldout, IterableDataset.from_generator(_rows, gen_kwargs=given))


def _rows(data: DataSection, where: str, skipped: int) -> Iterator[Record]:
    """The rows that training takes, each with a prompt; of the first `max_rows` after those skipped."""
    raw = stream_records(data, where)
    stop = None if data.max_rows is None else data.max_rows + skipped
    before = 0
    while some := list(islice(raw, SEEN_BEFORE)):
        ready = prepare(some, data, where, first=before)
        yield from islice(ready, max(0, skipped - before), None if stop is None else max(0, stop - before))
        before += len(some)
        if stop is not None and before >= stop:
            return


def _other_sections(run: RunFile) -> Iterator[tuple[str, DataSection | None]]:
    for index, task in enumerate(run.tasks):
        yield f"task.{index}.data", task.data
    yield "canary.data", None if run.canary is None else run.canary.data
