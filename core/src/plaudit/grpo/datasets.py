"""What the trainer asks of a dataset, checked before a model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import UsageError
from ..plugins.component import REFERENCE_COLUMNS
from ..scoring.spec import RewardSpec
from .prompts import RESERVED_COLUMNS


def check_datasets(train: Any, evaluation: Any, specs: Sequence[RewardSpec]) -> None:
    """Raise UsageError on a dataset that cannot be trained or evaluated on with these rewards."""
    if train is None:
        raise UsageError("train_dataset is missing; give a dataset with a 'prompt' column")
    _check(train, "train_dataset", specs)
    several = evaluation if isinstance(evaluation, Mapping) else {"": evaluation}
    for name, dataset in several.items():
        if dataset is not None:
            _check(dataset, f"eval_dataset[{name!r}]" if name else "eval_dataset", specs)


def _check(dataset: Any, label: str, specs: Sequence[RewardSpec]) -> None:
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise UsageError(
            f"{label} is a {type(dataset).__name__}; expected a datasets.Dataset or a list of dicts (streaming "
            "datasets are not "
            "supported yet)"
        )
    if len(dataset) == 0:
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
        _check_columns(spec, columns, label)


def _check_columns(spec: RewardSpec, columns: Sequence[str], label: str) -> None:
    component = spec.reward.component
    missing = sorted(component.required_columns - set(columns))
    if component.kind == "verifier" and "reference" in component.signature.required:
        wanted = [spec.reward.reference_column] if spec.reward.reference_column else list(REFERENCE_COLUMNS)
        if not set(wanted) & set(columns):
            missing.append(" or ".join(wanted))
    if missing:
        raise UsageError(
            f"reward {spec.name!r} needs the column {_listed(missing)}, which {label} does not have; its columns are "
            f"{_listed(columns)}"
        )


def column_names(dataset: Any) -> tuple[str, ...]:
    """The columns of a dataset; of a list of dicts, those of its first row."""
    named = getattr(dataset, "column_names", None)
    return tuple(named) if named is not None else tuple(dataset[0])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
