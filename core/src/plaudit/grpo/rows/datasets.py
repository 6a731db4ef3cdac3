"""What the trainer asks of a dataset, checked before a model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import UsageError
from ...scoring.inputs import check_columns
from ...scoring.spec import RewardSpec
from ...types import Row
from .prompts import RESERVED_COLUMNS, PromptCodec
from .streams import first_row, streams

# What a chat template may add to a prompt, generously.
TEMPLATE_TOKENS = 512


def check_datasets(train: Any, evaluation: Any, specs: Sequence[RewardSpec], *, max_steps: int = -1) -> None:
    """Raise UsageError on a dataset that cannot be trained or evaluated on with these rewards."""
    if train is None:
        raise UsageError("train_dataset is missing; give a dataset with a 'prompt' column")
    if streams(train) and max_steps <= 0:
        raise UsageError("train_dataset streams, so nobody knows how long an epoch is; set max_steps")
    for label, dataset in _labelled(train, evaluation):
        _check(dataset, label, specs)


def _check(dataset: Any, label: str, specs: Sequence[RewardSpec]) -> None:
    if not streams(dataset) and not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise UsageError(
            f"{label} is a {type(dataset).__name__}; expected a datasets.Dataset, a datasets.IterableDataset (of a "
            "generator: IterableDataset.from_generator) or a list of dicts"
        )
    if first_row(dataset) is None if streams(dataset) else len(dataset) == 0:
        raise UsageError(f"{label} is empty; it needs at least one row")
    columns = column_names(dataset)
    if "prompt" not in columns:
        raise UsageError(
            f"{label} has no 'prompt' column (it has {_listed(columns)}); rename the column that holds prompts"
        )
    for name in RESERVED_COLUMNS:
        if name in columns:
            raise UsageError(
                f"{label} has a column {name!r}, a name that reward functions get from the trainer; rename it"
            )
    for spec in specs:
        check_columns(spec.name, spec.reward, frozenset(columns))


def only_prompts(dataset: Any) -> Any:
    """The dataset, or each of several, without any other column: what remove_unused_columns asks for."""
    if dataset is None:
        return None
    if isinstance(dataset, Mapping):
        return {name: only_prompts(one) for name, one in dataset.items()}
    if hasattr(dataset, "select_columns"):
        return dataset.select_columns(["prompt"]) if "prompt" in column_names(dataset) else dataset
    return [{"prompt": row["prompt"]} if "prompt" in row else row for row in dataset]


def check_prompt_lengths(train: Any, evaluation: Any, codec: PromptCodec) -> None:
    """Raise UsageError, naming the first row, when a prompt does not fit the model's context beside the completion.

    Streams are not read for it: a prompt of theirs that is too long ends the run when it comes.
    """
    if not codec.checks_ahead or codec.max_prompt_tokens is None:
        return
    for label, dataset in _labelled(train, evaluation):
        if streams(dataset):
            continue
        for place, prompt in enumerate(_prompts(dataset)):
            # A token stands for at least a byte, so only prompts with more bytes than that need to be encoded.
            if len(str(prompt).encode()) + TEMPLATE_TOKENS <= codec.max_prompt_tokens:
                continue
            try:
                codec.encode([Row(prompt)])
            except UsageError as error:
                raise UsageError(f"row {place} of {label}: {error}") from None


def _prompts(dataset: Any) -> Iterator[Any]:
    """Every prompt, read in batches where the dataset can: row by row a large one takes minutes."""
    if hasattr(dataset, "select_columns"):
        for batch in dataset.select_columns(["prompt"]).iter(1000):
            yield from batch["prompt"]
    else:
        yield from (row["prompt"] for row in dataset)


def _labelled(train: Any, evaluation: Any) -> Iterator[tuple[str, Any]]:
    yield "train_dataset", train
    several = evaluation if isinstance(evaluation, Mapping) else {"": evaluation}
    for name, dataset in several.items():
        if dataset is not None:
            yield (f"eval_dataset[{name!r}]" if name else "eval_dataset"), dataset


def column_of(dataset: Any, name: str) -> list[Any]:
    """The values of a column, None where a row has none. Not for streams."""
    if hasattr(dataset, "column_names"):
        return list(dataset[name]) if name in dataset.column_names else []
    return [row.get(name) for row in dataset]


def column_names(dataset: Any) -> tuple[str, ...]:
    """The columns of a dataset; of a list of dicts or a stream that does not name them, those of its first row."""
    named = getattr(dataset, "column_names", None)
    if named is not None:
        return tuple(named)
    return tuple(first_row(dataset) or ()) if streams(dataset) else tuple(dataset[0])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
