"""One step of sampling: logits in, a token and its log-probability for every row out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .options import ExtraOptions
from .protocol import SamplingOptions

if TYPE_CHECKING:
    from torch import Tensor

NOISE_BLOCK = 64


class TokenChooser:
    """Draws the next token of each row by inverting the cumulative distribution at one uniform number.

    The numbers of all N requests are drawn together, `NOISE_BLOCK` steps at a time, so that what a request gets does
    not depend on which others have finished, nor on how rows are batched.
    """

    def __init__(
        self,
        sampling: SamplingOptions,
        extra: ExtraOptions,
        prompts: Sequence[Sequence[int]],
        *,
        eos_ids: Sequence[int],
        device: str,
    ) -> None:
        """`prompts`: token ids of the N requests. The random state is torch's global one, or made of `seed`."""
        import torch

        self._sampling = sampling
        self._extra = extra
        self._prompts = prompts
        self._device = device
        self._random = None if sampling.seed is None else torch.Generator().manual_seed(sampling.seed)
        self._noise: Tensor | None = None
        self._seen: Tensor | None = None  # (N, V) bool: the tokens that a repetition penalty applies to
        self._early = torch.tensor(list(eos_ids), dtype=torch.long, device=device)
        self._suppressed = torch.tensor(extra.suppress_tokens, dtype=torch.long, device=device)
        self._warpers = [] if sampling.greedy else _warpers(sampling, extra, device)

    def __call__(self, logits: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Choose a token for each row.

        logits: (W, V). rows: (W,) int64, which of the N requests each is. Returns tokens (W,) int64 and log-probs (W,)
        float32.
        """
        scores = self._penalised(logits.float(), rows, step)
        for warp in self._warpers:
            scores = warp(scores)
        tokens, logprobs = self._greedy(scores) if self._sampling.greedy else self._drawn(scores, rows, step)
        if self._seen is not None:
            self._seen[rows, tokens] = True
        return tokens, logprobs

    def _penalised(self, scores: Tensor, rows: Tensor, step: int) -> Tensor:
        penalty = self._sampling.repetition_penalty
        if penalty != 1:
            if self._seen is None:
                self._seen = self._prompt_tokens(scores.shape[1])
            scores = scores.where(~self._seen[rows], (scores / penalty).where(scores > 0, scores * penalty))
        forbidden = [self._suppressed] if self._suppressed.numel() else []
        if step < self._extra.min_new_tokens:
            forbidden.append(self._early)
        for tokens in forbidden:
            scores = scores.index_fill(1, tokens, float("-inf"))
        return scores

    def _greedy(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        best, tokens = scores.max(-1)
        return tokens, best - scores.logsumexp(-1)

    def _drawn(self, scores: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        import torch

        probabilities = scores.softmax(-1)
        cumulative = probabilities.cumsum(-1)
        # The first token whose cumulative probability exceeds the mark has a positive probability itself.
        mark = cumulative[:, -1:] * self._uniform(rows, step)
        tokens = torch.searchsorted(cumulative, mark, right=True)
        return tokens.squeeze(1), probabilities.gather(1, tokens).squeeze(1).log()

    def _uniform(self, rows: Tensor, step: int) -> Tensor:
        import torch

        column = step % NOISE_BLOCK
        if column == 0:
            noise = torch.rand(len(self._prompts), NOISE_BLOCK, generator=self._random)
            # Kept clear of 1, so that the mark stays below the last cumulative probability after rounding.
            self._noise = (noise * (1 - 2**-23)).to(self._device)
        assert self._noise is not None
        return self._noise[rows, column, None]

    def _prompt_tokens(self, vocab_size: int) -> Tensor:
        import torch

        seen = torch.zeros(len(self._prompts), vocab_size, dtype=torch.bool)
        for row, prompt in zip(seen, self._prompts, strict=True):
            row[list(prompt)] = True
        return seen.to(self._device)


def _warpers(sampling: SamplingOptions, extra: ExtraOptions, device: str) -> list[Callable[[Tensor], Tensor]]:
    """The distribution's transformations that are on, in the order of transformers' `generate()`."""
    import transformers as hf

    made = []
    if sampling.temperature != 1:
        made.append(hf.TemperatureLogitsWarper(float(sampling.temperature)))
    if sampling.top_k:
        made.append(hf.TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        made.append(hf.TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        made.append(hf.MinPLogitsWarper(sampling.min_p))
    if extra.typical_p < 1:
        made.append(hf.TypicalLogitsWarper(extra.typical_p))
    if extra.epsilon_cutoff:
        made.append(hf.EpsilonLogitsWarper(extra.epsilon_cutoff))
    if extra.eta_cutoff:
        made.append(hf.EtaLogitsWarper(extra.eta_cutoff, device=device))
    # These look at the scores alone; their first parameter, the ids so far, is for other processors.
    return [partial(warper, None) for warper in made]
