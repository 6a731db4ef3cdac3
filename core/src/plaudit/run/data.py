"""Rows ready to train on, from a `[data]` section: loaded, columns mapped, prompts and answers made."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plaudit.errors import UsageError
from plaudit.run.origins import load_records
from plaudit.run.schema import DataSection
from plaudit.run.typecheck import closest, show
from plaudit.types import Message

Record = Mapping[str, Any]
_PROMPT_LIKE = ("question", "problem", "instruction", "input", "query", "text", "messages")


@dataclass(frozen=True, slots=True)
class LoadedData:
    """The rows of one `[data]` section, each with a `prompt`. `heldout` is empty when none was asked for."""

    train: Sequence[Record]
    heldout: Sequence[Record]


def load_data(data: DataSection, *, where: str, seed: int, may_lack_prompts: bool = False) -> LoadedData:
    """Load and prepare the training and held-out rows; `where` is the section's key path, for messages.

    `may_lack_prompts`: rows without one get an empty one, which an environment fills.
    Raises UsageError on a missing file, column, answer or prompt.
    """
    train: Sequence[Record] = load_records(data, where)
    heldout: Sequence[Record]
    if data.eval_path or data.eval_split:
        heldout = load_records(data, where, heldout=True)[: data.eval_size]
    else:
        train, heldout = _hold_out(train, data.eval_size or 0, where, seed)
    train, heldout = (
        prepare(rows, data, where, may_lack_prompts=may_lack_prompts) for rows in (train[: data.max_rows], heldout)
    )
    return LoadedData(train, heldout)


def prepare(
    records: Sequence[Record], data: DataSection, where: str, *, may_lack_prompts: bool = False, first: int = 0
) -> list[Record]:
    """New records with mapped columns, the answer cut out, and the system prompt and few-shot turns in the prompt.

    `first`: the number of the first of them, for messages.
    """
    if not records:
        return []
    source = data.path or data.name or where
    names = list(dict.fromkeys(name for record in records for name in record))
    have = f"(columns: {', '.join(names)})"
    for ours, theirs in data.columns.items():
        if theirs not in names:
            raise UsageError(
                f"{where}.columns.{ours}: '{source}' has no column '{theirs}'{closest(theirs, names)} {have}"
            )
    mapped = [_map_columns(record, names, data.columns) for record in records]
    if "prompt" not in mapped[0] and may_lack_prompts:
        mapped = [{**record, "prompt": [{"role": "user", "content": ""}]} for record in mapped]
    if "prompt" not in mapped[0]:
        guess = next((name for name in names if name.lower() in _PROMPT_LIKE), names[0])
        raise UsageError(f"'{source}' has no column 'prompt' {have}; set {where}.columns = {{prompt = \"{guess}\"}}")
    if data.answer_pattern is not None:
        if "answer" not in mapped[0]:
            raise UsageError(
                f"{where}.answer_pattern needs a column 'answer' {have}; set {where}.columns = {{answer = …}}"
            )
        mapped = _extract_answers(mapped, data.answer_pattern, where, first)
    before = _turns_before(data)
    return [
        {**record, "prompt": _prompt(record["prompt"], before, source, i)} for i, record in enumerate(mapped, first)
    ]


def _hold_out(records: Sequence[Record], size: int, where: str, seed: int) -> tuple[list[Record], list[Record]]:
    """`size` random rows taken away from `records`, both parts in their first order."""
    if size >= len(records) > 0:
        raise UsageError(f"{where}.eval_size = {size}, but there are only {len(records)} rows; hold out fewer")
    chosen = set(random.Random(seed).sample(range(len(records)), size))
    train = [record for index, record in enumerate(records) if index not in chosen]
    return train, [records[index] for index in sorted(chosen)]


def _map_columns(record: Record, names: Sequence[str], columns: Mapping[str, str]) -> dict[str, Any]:
    moved = set(columns.values()) | set(columns)
    kept = {name: record.get(name) for name in names if name not in moved}
    return {**{ours: record.get(theirs) for ours, theirs in columns.items()}, **kept}


def _extract_answers(records: list[dict[str, Any]], pattern: str, where: str, first: int) -> list[dict[str, Any]]:
    expression = re.compile(pattern)
    found = [expression.search(str(record["answer"])) for record in records]
    missed = [index for index, match in enumerate(found) if match is None]
    if missed:
        raise UsageError(
            f"{where}.answer_pattern = {show(pattern)} finds nothing in {len(missed)} of {len(records)} answers; "
            f"the first is row {first + missed[0]}: {show(records[missed[0]]['answer'])}"
        )
    return [
        {**record, "answer": (match.group(1) or "").strip()}
        for record, match in zip(records, found, strict=True)
        if match is not None
    ]


def _turns_before(data: DataSection) -> list[Message]:
    """The messages that go before each prompt: the system prompt, then the few-shot turns."""
    turns = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
    for shot in data.few_shot:
        turns += [{"role": "user", "content": shot.prompt}, {"role": "assistant", "content": shot.answer}]
    return turns


def _prompt(prompt: Any, before: list[Message], source: str, index: int) -> Any:
    """A plain prompt stays plain unless there are turns to put before it; a conversation gets them in front."""
    if not isinstance(prompt, (str, list)) or not prompt:
        raise UsageError(
            f"row {index} of '{source}' has the prompt {show(prompt)}: expected text or a list of messages"
        )
    if not before:
        return prompt
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if before[0]["role"] == "system" and messages[0].get("role") == "system":
        raise UsageError(f"row {index} of '{source}' begins with a system message already; drop system_prompt")
    lead = 1 if messages[0].get("role") == "system" else 0
    return [*messages[:lead], *before, *messages[lead:]]
