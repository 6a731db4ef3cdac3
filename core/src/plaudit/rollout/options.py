"""From `generation_kwargs`, named as transformers names them, to sampling options of our own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from ..errors import UsageError
from .protocol import SamplingOptions
from .structured import StructuredOutput
from .values import are_token_ids, is_share, is_whole, refuse

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

    def __post_init__(self) -> None:
        """Raise UsageError on a value of another type or out of range."""
        ends = self.eos_token_id
        holds = {
            "do_sample": (isinstance(self.do_sample, bool), "True or False"),
            "eos_token_id": (
                ends is None or is_whole(ends) or are_token_ids(ends),
                "a token id, a list of them, or None",
            ),
            "min_new_tokens": (is_whole(self.min_new_tokens), "a whole number, 0 or more"),
            "suppress_tokens": (are_token_ids(self.suppress_tokens), "a list of token ids"),
            "typical_p": (is_share(self.typical_p, above=True), "a number above 0 and at most 1 (1 is off)"),
            "epsilon_cutoff": (_cuts(self.epsilon_cutoff), "a number from 0 (off) to below 1"),
            "eta_cutoff": (_cuts(self.eta_cutoff), "a number from 0 (off) to below 1"),
        }
        refuse({name: (getattr(self, name), *pair) for name, pair in holds.items()}, what="generation_kwargs:")

    @property
    def narrows(self) -> bool:
        """Whether tokens are drawn from part of the vocabulary, or some are forbidden for a while."""
        return bool(
            self.min_new_tokens or self.suppress_tokens or self.typical_p < 1 or self.epsilon_cutoff or self.eta_cutoff
        )


OFF = {
    name: getattr(SamplingOptions(), name) for name in ("temperature", "top_p", "top_k", "repetition_penalty", "stop")
}

STRUCTURED = "structured_outputs"
"""vLLM's name, for every generator: a mapping with one of regex, json, choice."""

EXTRA_NAMES = tuple(field.name for field in fields(ExtraOptions))


def resolve(sampling: SamplingOptions) -> tuple[SamplingOptions, ExtraOptions]:
    """Fold `generation_kwargs` in: they override fields of the same meaning, and None is what turns an option off.

    Raises UsageError on an unknown name, or a value out of place.
    """
    overrides: dict[str, Any] = {"generation_kwargs": {}}
    extras: dict[str, Any] = {}
    for name, value in sampling.generation_kwargs.items():
        if name in OVERRIDES:
            overrides[OVERRIDES[name]] = _frozen(value)
        elif name in EXTRA_NAMES:
            extras[name] = _frozen(value)
        elif name == STRUCTURED:
            overrides["structured"] = None if value is None else StructuredOutput.of(value)
        else:
            raise UsageError(unknown_option(name, [*OVERRIDES, *EXTRA_NAMES, STRUCTURED]))
    if isinstance(overrides.get("stop"), str):
        overrides["stop"] = (overrides["stop"],)
    extra = ExtraOptions(**{name: value for name, value in extras.items() if value is not None})
    if not extra.do_sample:
        overrides["temperature"] = 0.0
    off: dict[str, Any] = {name: OFF.get(name) for name, value in overrides.items() if value is None}
    return replace(sampling, **(overrides | off)), extra


def refuse_unknown_tokens(extra: ExtraOptions, vocab_size: int) -> None:
    """Raise UsageError on a suppressed token that the model does not have, or if it has no other."""
    unknown = [token for token in extra.suppress_tokens if token >= vocab_size]
    if unknown:
        raise UsageError(
            f"generation_kwargs: suppress_tokens has {unknown[0]}, but the model's tokens are 0 to {vocab_size - 1}"
        )
    if len(set(extra.suppress_tokens)) == vocab_size:
        raise UsageError("generation_kwargs: suppress_tokens has every token of the model; leave some out")


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _cuts(value: Any) -> bool:
    return is_share(value) and value < 1


def unknown_option(name: str, known: Collection[str]) -> str:
    """The message about a name in generation_kwargs that is none of `known`."""
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"generation_kwargs: {name!r} is not supported by this generator{hint} Supported: {', '.join(sorted(known))}"
