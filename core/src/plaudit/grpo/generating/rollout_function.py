"""Rollouts that a function of the user's writes: `rollout_func(prompts, trainer)`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...errors import ContractError
from ...rollout.protocol import Generator
from ...scoring.inputs import NOT_PASSED
from ...types import Rollout, Row
from ..rows.prompts import RESERVED_COLUMNS, PromptCodec
from ..writing import Assignment

REQUIRED = ("prompt_ids", "completion_ids", "logprobs")
OPTIONAL = ("env_mask", "logprob_token_ids")


@dataclass(slots=True, eq=False)
class FunctionWriter:
    """Asks the function for `num_generations` rollouts of each of this rank's prompts, those of a prompt together.

    A function that answers each prompt once instead is given every prompt as often as it is needed.
    `end_ids`: a completion that ends with another token was cut off.
    """

    codec: PromptCodec
    generator: Generator
    function: Callable[..., Any]
    trainer: Any
    end_ids: frozenset[int]
    _once: bool = False

    late_columns: ClassVar[bool] = True

    def write(self, work: Assignment, finished: Callable[[Rollout], None]) -> list[Rollout]:
        """Call the function. Raises ContractError, which says what is wrong, on anything but what it should return."""
        self.generator.refresh(work.step)
        output = self._ask(work)
        check_output(output, len(work.rows))
        rollouts = [self._rollout(index, row, output) for index, row in enumerate(work.rows)]
        for rollout in rollouts:
            finished(rollout)
        return rollouts

    def scored(self, rollouts: Sequence[Rollout]) -> None:
        """Nothing is held."""

    def rest(self) -> None:
        """Nothing is held between batches but the generator."""

    def close(self) -> None:
        """Close the generator."""
        self.generator.close()

    def _ask(self, work: Assignment) -> Mapping[str, Any]:
        repeats = work.num_generations if len(work.rows) % work.num_generations == 0 else 1
        each = work.rows[::repeats]
        if self._once:
            return self._call(work.rows)
        output = self._call(each)
        if repeats > 1 and _count(output) == len(each):
            # It answers each prompt once, so the others of each group are still to be asked for.
            self._once = True
            more = self._call([row for row in each for _ in range(repeats - 1)])
            return _woven(output, more, len(each), repeats)
        return output

    def _call(self, rows: Sequence[Row]) -> Mapping[str, Any]:
        output = self.function([copy.deepcopy(row.prompt) for row in rows], self.trainer)
        if not isinstance(output, Mapping):
            raise ContractError(f"rollout_func returned a {type(output).__name__}; expected a dict of {_keys()}")
        missing = [key for key in REQUIRED if key not in output]
        if missing:
            raise ContractError(f"rollout_func returned no {missing[0]!r}; expected a dict of {_keys()}")
        return output

    def _rollout(self, index: int, row: Row, output: Mapping[str, Any]) -> Rollout:
        ids = tuple(int(token) for token in output["completion_ids"][index])
        mask = output.get("env_mask")
        known = {*REQUIRED, *OPTIONAL}
        more = {
            key: value[index] if isinstance(value, list) else value for key, value in output.items() if key not in known
        }
        return Rollout(
            index=index,
            row=replace(row, columns={**row.columns, **more}),
            completion=self.codec.decode(row, ids),
            completion_ids=ids,
            prompt_ids=tuple(int(token) for token in output["prompt_ids"][index]),
            logprobs=_logprobs(output, index),
            tool_mask=None if mask is None else tuple(int(mark) for mark in mask[index]),
            finish_reason="length" if ids and ids[-1] not in self.end_ids else "stop",
        )


def check_output(output: Mapping[str, Any], count: int) -> None:
    """Raise ContractError unless every field has one entry for each of `count` rollouts, and its lists fit."""
    for key, values in output.items():
        if values is None and key in ("logprobs", *OPTIONAL):
            continue
        if key in REQUIRED or key in OPTIONAL or isinstance(values, list):
            if not hasattr(values, "__len__"):
                raise ContractError(f"rollout_func: {key!r} is a {type(values).__name__}; expected {count} lists")
            if len(values) != count:
                raise ContractError(
                    f"rollout_func: {key!r} has {len(values)} entries for {count} rollouts; return num_generations "
                    "for each prompt, those of one prompt together"
                )
        if (key in RESERVED_COLUMNS and key not in REQUIRED) or key in NOT_PASSED - {"completion_ids"}:
            raise ContractError(f"rollout_func: {key!r} is a name that rewards get from the trainer; rename the field")
    _check_tokens(output, count)


def _check_tokens(output: Mapping[str, Any], count: int) -> None:
    for index in range(count):
        if not len(output["prompt_ids"][index]):
            raise ContractError(f"rollout_func: prompt_ids of rollout {index} is empty; it needs at least one token")
        tokens = len(output["completion_ids"][index])
        for key in ("logprobs", *OPTIONAL):
            values = output.get(key)
            if values is None or (key == "logprobs" and values[index] is None):
                continue
            if len(values[index]) != tokens:
                raise ContractError(
                    f"rollout_func: {key} of rollout {index} has {len(values[index])} entries for {tokens} completion "
                    "tokens; return one each"
                )
        mask = output.get("env_mask")
        if mask is not None and not {0, 1}.issuperset(int(mark) for mark in mask[index]):
            raise ContractError(f"rollout_func: env_mask of rollout {index} holds something else than 0 and 1")


def _logprobs(output: Mapping[str, Any], index: int) -> tuple[float, ...] | None:
    """The log-probs of the sampled tokens; None where some are missing.

    With `logprob_token_ids` there may be several a token, of which that of the sampled one counts.
    """
    values = None if output["logprobs"] is None else output["logprobs"][index]
    if values is None or any(value is None for value in values):
        return None
    named = output.get("logprob_token_ids")
    if named is None:
        return tuple(float(_only(value)) for value in values)
    found = []
    for token, value, ids in zip(output["completion_ids"][index], values, named[index], strict=True):
        choices = dict(zip(_as_list(ids), _as_list(value), strict=True))
        if token not in choices:
            raise ContractError(
                f"rollout_func: logprob_token_ids of rollout {index} lack the sampled token {token}; its log-prob is "
                "what is needed"
            )
        found.append(float(choices[token]))
    return tuple(found)


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) else value


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _count(output: Mapping[str, Any]) -> int:
    return len(output["completion_ids"])


def _woven(first: Mapping[str, Any], more: Mapping[str, Any], prompts: int, repeats: int) -> dict[str, Any]:
    """One answer for each prompt and `repeats - 1` more for each, as one output in the order of the rollouts."""
    check_output(first, prompts)
    check_output(more, prompts * (repeats - 1))
    found: dict[str, Any] = {}
    for key, values in first.items():
        if values is None or not (isinstance(values, list) or key in REQUIRED or key in OPTIONAL):
            found[key] = values
            continue
        rest = more[key]
        found[key] = [
            one
            for place in range(prompts)
            for one in [values[place], *rest[place * (repeats - 1) : (place + 1) * (repeats - 1)]]
        ]
    return found


def _keys() -> str:
    return ", ".join(repr(key) for key in REQUIRED)
