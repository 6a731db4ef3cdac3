"""A loaded component, and the reward that wraps it: TRL's contract on the outside, a reward or a verifier inside."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.contract import as_verdict, as_verdicts
from plaudit.plugins.declare import Declaration, Kind
from plaudit.types import Text, Verdict, completion_text

REWARD_CONTRACT = frozenset(
    {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments"}
)
VERIFIER_CONTRACT = frozenset({"completion", "completion_messages", "reference"})
REFERENCE_COLUMNS = ("reference", "answer", "solution", "gold")


@dataclass(frozen=True, slots=True)
class CallSignature:
    """The parameters of the contract call, options left out. `takes_any`: it has **kwargs and gets every column."""

    names: frozenset[str]
    required: frozenset[str]
    takes_any: bool


@dataclass(frozen=True, slots=True)
class Component:
    """A plugin's component, loaded and ready.

    `target` is the contract callable with its options applied. `reference` is the text with which another process can
    load it again (with `options`), None for a closure or a live object.
    """

    kind: Kind
    name: str
    target: Callable[..., Any]
    declaration: Declaration
    signature: CallSignature
    is_async: bool
    reference: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    distribution: str | None = None
    version: str | None = None
    option_names: frozenset[str] = frozenset()

    @property
    def required_columns(self) -> frozenset[str]:
        """The dataset columns without which it cannot be called; a verifier's reference is not among them."""
        contract = VERIFIER_CONTRACT | {"prompt", "completion_ids"} if self.kind == "verifier" else REWARD_CONTRACT
        return self.signature.required - contract

    def select(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Those of `arguments` that the call takes. Raises UsageError when one that it needs is missing."""
        signature = self.signature
        missing = signature.required - arguments.keys()
        if missing:
            raise UsageError(missing_columns_message(self, missing, arguments))
        if signature.takes_any:
            return {name: value for name, value in arguments.items() if name not in self.option_names}
        return {name: value for name, value in arguments.items() if name in signature.names}


class Reward:
    """A named reward: call it with TRL's contract, or `judge` one completion if it is a verifier.

    Make one with `load_reward`. An asynchronous component gives an `AsyncReward`, whose call and judge are coroutine
    functions. Pickles by its reference when it has one.
    """

    def __init__(self, component: Component, *, reference_column: str | None = None) -> None:
        self.component = component
        self.reference_column = reference_column
        self.__name__ = component.name
        self.__doc__ = docstring(component.target)
        self.__plaudit__ = component.declaration

    def __call__(self, completions: Sequence[Text], **columns: Any) -> list[float | None]:
        """Scores of N completions, None = abstained. `columns`: prompts, completion_ids, dataset columns, N long each.

        Raises UsageError on a missing column and ContractError on a result that is not N scores.
        """
        if self.component.kind == "verifier":
            verdicts = [
                self.judge(text, row) for text, row in zip(completions, self.rows(completions, columns), strict=True)
            ]
            return self._report(verdicts, columns)
        arguments = self.component.select({"completions": completions, **columns})
        verdicts = as_verdicts(self.component.target(**arguments), len(completions), self.__name__)
        return self._report(verdicts, columns)

    def judge(self, completion: Text, columns: Mapping[str, Any]) -> Verdict:
        """The verdict on one completion; `columns` holds one row's values. Only for verifiers."""
        arguments = self._arguments(completion, columns)
        if isinstance(arguments, Verdict):
            return arguments
        return as_verdict(self.component.target(**arguments), self.__name__)

    def rows(self, completions: Sequence[Text], columns: Mapping[str, Any]) -> list[dict[str, Any]]:
        """One mapping a completion from TRL's columns; `prompts` becomes `prompt`, what is no column is left out.

        Raises UsageError on a column that is not one value a completion.
        """
        lists = {name: values for name, values in columns.items() if name not in REWARD_CONTRACT}
        for plural, single in (("prompts", "prompt"), ("completion_ids", "completion_ids")):
            if columns.get(plural) is not None:
                lists[single] = columns[plural]
        for name, values in lists.items():
            if isinstance(values, str) or not hasattr(values, "__len__") or len(values) != len(completions):
                wanted = f"expected {len(completions)} values, one a completion"
                raise UsageError(f"'{self.__name__}': column '{name}' is {values!r:.60}; {wanted}")
        return [{name: values[i] for name, values in lists.items()} for i in range(len(completions))]

    def _arguments(self, completion: Text, columns: Mapping[str, Any]) -> dict[str, Any] | Verdict:
        """The arguments of one verifier call, or the verdict when the row holds no reference to judge against."""
        component = self.component
        if component.kind != "verifier":
            raise UsageError(
                f"'{component.name}' is a reward function: it scores batches and cannot judge one completion"
            )
        arguments: dict[str, Any] = {**columns, "completion": completion_text(completion)}
        if "completion_messages" in component.signature.names:
            arguments["completion_messages"] = completion
        column = self.find_reference_column(columns)
        if column is not None:
            arguments["reference"] = columns[column]
            if columns[column] is None and "reference" in component.signature.required:
                return Verdict.abstain(f"no reference: column '{column}' is empty in this row")
        return component.select(arguments)

    def find_reference_column(self, columns: Mapping[str, Any]) -> str | None:
        """The column of a verifier's reference in this row: the given one, else the first usual name with a value.

        None when there is none. Raises UsageError when the given one is missing.
        """
        if self.reference_column is not None:
            if self.reference_column not in columns:
                raise UsageError(missing_columns_message(self.component, {self.reference_column}, columns))
            return self.reference_column
        present = [name for name in REFERENCE_COLUMNS if name in columns]
        return next((name for name in present if columns[name] is not None), present[0] if present else None)

    def _report(self, verdicts: list[Verdict], columns: Mapping[str, Any]) -> list[float | None]:
        """Hand what the verdicts carry to the trainer's log_extra and log_metric, where given; return the scores."""
        log_extra, log_metric = columns.get("log_extra"), columns.get("log_metric")
        if log_extra is not None:
            if any(verdict.extracted is not None for verdict in verdicts):
                log_extra(f"{self.__name__}/extracted", [verdict.extracted or "" for verdict in verdicts])
            for column in dict.fromkeys(name for verdict in verdicts for name in verdict.columns):
                log_extra(column, [verdict.columns.get(column) for verdict in verdicts])
        if log_metric is not None:
            for metric in dict.fromkeys(name for verdict in verdicts for name in verdict.metrics):
                values = [verdict.metrics[metric] for verdict in verdicts if metric in verdict.metrics]
                log_metric(metric, sum(values) / len(values))
        return [verdict.score for verdict in verdicts]

    def __reduce__(self) -> tuple[Any, ...]:
        component = self.component
        if component.reference is None:
            return type(self)._restore, (component, self.reference_column)
        options = dict(component.options)
        return _load_again, (component.reference, options, component.name, self.reference_column)

    @classmethod
    def _restore(cls, component: Component, reference_column: str | None) -> Reward:
        return cls(component, reference_column=reference_column)

    def __repr__(self) -> str:
        component = self.component
        origin = f" from {component.distribution} {component.version}" if component.distribution else ""
        return f"<{component.kind} '{component.name}'{origin}>"


class AsyncReward(Reward):
    """A reward whose component is a coroutine function: awaiting the call is the caller's part."""

    async def __call__(self, completions: Sequence[Text], **columns: Any) -> list[float | None]:  # type: ignore[override]
        if self.component.kind == "verifier":
            rows = self.rows(completions, columns)
            judged = (self.judge(text, row) for text, row in zip(completions, rows, strict=True))
            return self._report(list(await asyncio.gather(*judged)), columns)
        arguments = self.component.select({"completions": completions, **columns})
        verdicts = as_verdicts(await self.component.target(**arguments), len(completions), self.__name__)
        return self._report(verdicts, columns)

    async def judge(self, completion: Text, columns: Mapping[str, Any]) -> Verdict:  # type: ignore[override]
        arguments = self._arguments(completion, columns)
        if isinstance(arguments, Verdict):
            return arguments
        return as_verdict(await self.component.target(**arguments), self.__name__)


def reward_of(component: Component, *, reference_column: str | None = None) -> Reward:
    """The reward around a component: an `AsyncReward` when it is asynchronous."""
    return (AsyncReward if component.is_async else Reward)(component, reference_column=reference_column)


def docstring(target: Any) -> str:
    """An object's own docstring; for a partial, that of the function in it."""
    while isinstance(target, functools.partial):
        target = target.func
    return inspect.getdoc(target) or ""


def missing_columns_message(component: Component, missing: frozenset[str] | set[str], have: Mapping[str, Any]) -> str:
    """One line that says which columns a component lacks, which there are, and what to set."""
    contract = REWARD_CONTRACT | VERIFIER_CONTRACT
    columns = ", ".join(sorted(name for name in have if name not in contract)) or "none"
    if "reference" in missing and component.kind == "verifier":
        return (
            f"verifier '{component.name}' needs a reference: there is no column {', '.join(REFERENCE_COLUMNS)} "
            f"(columns: {columns}); set reference_column"
        )
    names = ", ".join(f"'{name}'" for name in sorted(missing))
    return f"{component.kind} '{component.name}' needs {names}, which the data has no column for (columns: {columns})"


def _load_again(reference: str, options: dict[str, Any], name: str, reference_column: str | None) -> Reward:
    from plaudit.plugins.loading import load_reward

    return load_reward(reference, options=options, name=name, reference_column=reference_column)
