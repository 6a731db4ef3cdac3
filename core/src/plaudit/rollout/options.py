"""From `generation_kwargs`, named as transformers names them, to sampling options of our own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from ..errors import UsageError
from .protocol import SamplingOptions
from .structured import StructuredOutput

OVERRIDES = {
    "max_new_tokens": "max_new_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "seed": "seed",
    "stop_strings": "stop",
}


@dataclass(frozen=True, slots=True)
class ExtraOptions:
    """What `generate()` can do beyond `SamplingOptions`, under its names and with its meanings.

    `eos_token_id` replaces the model's own end-of-sequence tokens; `min_new_tokens` and `suppress_tokens` forbid
    tokens; `typical_p`, `epsilon_cutoff` and `eta_cutoff` truncate the distribution. `do_sample` False is greedy.
    """

    do_sample: bool = True
    eos_token_id: int | tuple[int, ...] | None = None
    min_new_tokens: int = 0
    suppress_tokens: tuple[int, ...] = ()
    typical_p: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0


STRUCTURED = "structured_outputs"
"""vLLM's name, for every generator: a mapping with one of regex, json, choice."""

EXTRA_NAMES = tuple(field.name for field in fields(ExtraOptions))


def resolve(sampling: SamplingOptions) -> tuple[SamplingOptions, ExtraOptions]:
    """Fold `generation_kwargs` in: they override fields of the same meaning. Raises UsageError on an unknown name."""
    overrides: dict[str, Any] = {"generation_kwargs": {}}
    extras: dict[str, Any] = {}
    for name, value in sampling.generation_kwargs.items():
        if name in OVERRIDES:
            overrides[OVERRIDES[name]] = _frozen(value)
        elif name in EXTRA_NAMES:
            extras[name] = _frozen(value)
        elif name == STRUCTURED:
            overrides["structured"] = StructuredOutput.of(value)
        else:
            raise UsageError(unknown_option(name, [*OVERRIDES, *EXTRA_NAMES, STRUCTURED]))
    if isinstance(overrides.get("stop"), str):
        overrides["stop"] = (overrides["stop"],)
    extra = ExtraOptions(**extras)
    if not extra.do_sample:
        overrides["temperature"] = 0.0
    return replace(sampling, **overrides), extra


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def unknown_option(name: str, known: Collection[str]) -> str:
    """The message about a name in generation_kwargs that is none of `known`."""
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"generation_kwargs: {name!r} is not supported by this generator{hint} Supported: {', '.join(sorted(known))}"
