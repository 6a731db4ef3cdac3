"""What every generator takes and gives. No torch here: servers and workers use it too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import UsageError
from ..types import FinishReason
from .media import Media
from .structured import StructuredOutput
from .values import SEEDS, are_texts, is_number, is_share, is_whole, refuse


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How completions are drawn. The defaults leave the model's distribution as it is.

    `temperature` 0 means greedy. `top_p` 1.0, `top_k` 0, `min_p` None and `repetition_penalty` 1.0 are off. A
    completion ends with an end-of-sequence token, with the token that completes one of the `stop` strings, or after
    `max_new_tokens`. `structured` is what the text is held to; only tokens that can still lead there are drawn. `seed`
    None draws from torch's global random state. `generation_kwargs` are further options under the names that
    transformers' `generate()` gives them; a generator refuses by name those it does not know.
    """

    max_new_tokens: int = 512
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float | None = None
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    structured: StructuredOutput | None = None
    seed: int | None = None
    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise UsageError on a value of another type or out of range."""
        holds = {
            "max_new_tokens": (is_whole(self.max_new_tokens, least=1), "a whole number, at least 1"),
            "temperature": (is_number(self.temperature) and self.temperature >= 0, "a number, 0 (greedy) or more"),
            "top_p": (is_share(self.top_p, above=True), "a number above 0 and at most 1"),
            "top_k": (is_whole(self.top_k), "a whole number, 0 (off) or more"),
            "min_p": (self.min_p is None or is_share(self.min_p), "None or a number between 0 and 1"),
            "repetition_penalty": (
                is_number(self.repetition_penalty) and self.repetition_penalty > 0,
                "a number above 0 (1.0 is off)",
            ),
            "stop": (are_texts(self.stop), "a tuple of strings, none of them empty"),
            "seed": (self.seed is None or (is_whole(self.seed, least=SEEDS.start) and self.seed in SEEDS), "None or a "
                     "whole number that fits into 64 bits"),
            "generation_kwargs": (isinstance(self.generation_kwargs, Mapping), "a mapping from names to values"),
        }  # fmt: skip
        refuse({name: (getattr(self, name), *pair) for name, pair in holds.items()}, what="sampling option")

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is taken each time."""
        return self.temperature == 0

    @property
    def truncated(self) -> bool:
        """Whether tokens are drawn from part of the vocabulary, and log-probs normalised over that part."""
        return self.top_p < 1 or self.top_k > 0 or bool(self.min_p) or self.structured is not None


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to write. `index` names it in the answer; equal `prompt_ids` are computed once.

    `seed`: random numbers of its own, so that it is written the same whatever else is; None draws with the others.
    `media`: the prompt's images; prompts are equal if these are the same too. `max_new_tokens`: most tokens of this
    completion, where that is less than the sampling's; None = the sampling's.
    """

    index: int
    prompt_ids: tuple[int, ...]
    seed: int | None = None
    media: Media | None = None
    max_new_tokens: int | None = None

    def limit(self, most: int) -> int:
        """Most tokens of its completion, where others may have `most`."""
        return most if self.max_new_tokens is None else min(most, self.max_new_tokens)


def check_prompts(requests: Sequence[Request], vocab_size: int) -> None:
    """Raise UsageError on an empty prompt, or a token that a model of `vocab_size` tokens does not have."""
    for request in requests:
        if not request.prompt_ids:
            raise UsageError(f"request {request.index} has an empty prompt; a prompt needs at least one token")
        # What stands for an image may be outside the vocabulary: the model replaces it.
        low, high = min(request.prompt_ids), max(request.prompt_ids)
        if request.media is None and (low < 0 or high >= vocab_size):
            raise UsageError(
                f"request {request.index} has the token {low if low < 0 else high} in its prompt, but the model's are "
                f"0 to {vocab_size - 1}; use the model's own tokenizer, or resize its embeddings"
            )


@dataclass(frozen=True, slots=True)
class Generated:
    """A finished completion.

    `completion_ids` includes the token that ended it. `logprobs`, one a token, in nats, are those of the distribution
    that the token was drawn from, after temperature, penalties and truncation; when greedy, those of the model at
    temperature 1; None where the engine reports none. `finish_reason` is "stop" or "length". `candidates`: for each
    token the ids that it was drawn from, itself among them; None = the whole vocabulary, or nobody asked.
    """

    index: int
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    finish_reason: FinishReason
    candidates: tuple[tuple[int, ...], ...] | None = None


class Generator(Protocol):
    """Writes completions.

    `exact`: its log-probs are those that the policy itself gives, by the same weights and code, so that they may stand
    for the policy's old log-probs and need no correction. A generator whose ranks share an engine also has `together`,
    True: then all ranks call `generate` equally often, with no requests where they have none.
    """

    exact: bool

    def refresh(self, step: int) -> None:
        """Take over the policy's weights as they are after optimizer step `step`.

        Called by every rank before each generation batch; nothing to do where they were taken over already.
        """
        ...

    def generate(self, requests: Sequence[Request], sampling: SamplingOptions) -> Iterator[Generated]:
        """Yield each request's completion as it finishes, in any order.

        The same requests, options, weights and random state give the same completions. The consumer may do other
        work between two of them; closing the iterator early frees what it holds.
        """
        ...

    def close(self) -> None:
        """Free engines and connections. Calling it again does nothing."""
        ...
