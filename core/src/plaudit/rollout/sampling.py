"""One step of sampling: logits in, a token and its log-probability for every row out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .options import ExtraOptions
from .protocol import Request, SamplingOptions

if TYPE_CHECKING:
    from torch import Tensor

    from .grammar import Constraint, GrammarState

NOISE_BLOCK = 64
SMALL_TEMPERATURE = 1e-6
LEAST_TEMPERATURE = 1e-30  # what divides by less is zero in float32


class Noise:
    """Uniform numbers for N requests: number `step` of a request does not depend on how requests are batched.

    The numbers come from one generator for all, `NOISE_BLOCK` steps at a time; a request with a seed has its own.
    """

    def __init__(self, requests: Sequence[Request], seed: int | None, device: Any) -> None:
        """`seed` None draws one from torch's global random state, once, however much is generated."""
        import torch

        self._count = len(requests)
        self._device = device
        seed = int(torch.randint(2**62, ())) if seed is None else seed
        self._common = torch.Generator().manual_seed(seed)
        self._own = {
            place: torch.Generator().manual_seed(request.seed)
            for place, request in enumerate(requests)
            if request.seed is not None
        }
        self._blocks: list[Tensor] = []

    def block(self, number: int) -> Tensor:
        """(NOISE_BLOCK, N) numbers in [0, 1) for the steps from number * NOISE_BLOCK on."""
        import torch

        while len(self._blocks) <= number:
            # A generator for each block, and a row for each request: what one gets does not depend on how many follow.
            block = torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=self._common)))
            drawn = torch.rand(self._count, NOISE_BLOCK, generator=block)
            for place, own in self._own.items():
                drawn[place] = torch.rand(NOISE_BLOCK, generator=own)
            # Kept clear of 1, so that a mark stays below the last cumulative probability after rounding.
            self._blocks.append((drawn * (1 - 2**-23)).t().contiguous().to(self._device))
        return self._blocks[number]


class TokenChooser:
    """Draws the next token of each row by inverting the cumulative distribution at one uniform number."""

    def __init__(
        self,
        sampling: SamplingOptions,
        extra: ExtraOptions,
        noise: Noise,
        *,
        eos_ids: Sequence[int],
        device: Any,
        constraint: Constraint | None = None,
    ) -> None:
        """`constraint`: the structured output that all rows are held to, if any."""
        import torch

        self._sampling = sampling
        self._extra = extra
        self._source = noise
        self._device = device
        self._constraint = constraint
        self._early = torch.tensor(list(eos_ids), dtype=torch.long, device=device)
        self._suppressed = torch.tensor(extra.suppress_tokens, dtype=torch.long, device=device)
        self._warpers = [] if sampling.greedy else _warpers(sampling, extra, device)

    def begin(self, places: Tensor, prompts: Sequence[Sequence[int]]) -> ChoosingState:
        """The state of W rows. places: (W,) int64, which of the N requests each is. `prompts`: their token ids."""
        grammar = None if self._constraint is None else self._constraint.begin(len(prompts))
        return ChoosingState(places, prompts if self._sampling.repetition_penalty != 1 else (), grammar)

    def __call__(self, logits: Tensor, rows: ChoosingState) -> tuple[Tensor, Tensor]:
        """Choose the next token of each row.

        logits: (W, V). Returns tokens (W,) int64 and log-probs (W,) float32.
        """
        scores = self._penalised(logits.float(), rows)
        for warp in self._warpers:
            scores = warp(scores)
        tokens, logprobs = self._greedy(scores) if self._sampling.greedy else self._drawn(scores, rows)
        rows.chosen(tokens)
        return tokens, logprobs

    def _penalised(self, scores: Tensor, rows: ChoosingState) -> Tensor:
        penalty = self._sampling.repetition_penalty
        if penalty != 1:
            seen = rows.seen_in(scores)
            scores = scores.where(~seen, (scores / penalty).where(scores > 0, scores * penalty))
        forbidden = [self._suppressed] if self._suppressed.numel() else []
        if rows.step < self._extra.min_new_tokens:
            forbidden.append(self._early)
        for tokens in forbidden:
            scores = scores.index_fill(1, tokens, float("-inf"))
        return scores if rows.grammar is None else rows.grammar.allowed(scores)

    def _greedy(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        best, tokens = scores.max(-1)
        return tokens, best - scores.logsumexp(-1)

    def _drawn(self, scores: Tensor, rows: ChoosingState) -> tuple[Tensor, Tensor]:
        import torch

        probabilities = scores.softmax(-1)
        cumulative = probabilities.cumsum(-1)
        # The first token whose cumulative probability exceeds the mark has a positive probability itself.
        mark = cumulative[:, -1:] * rows.uniform(self._source)
        tokens = torch.searchsorted(cumulative, mark, right=True)
        if cumulative.device.type != "cpu":
            tokens = with_probability(tokens, probabilities)
        # Where logits are no numbers, nothing exceeds it; the log-prob says so.
        tokens = tokens.clamp(max=scores.shape[-1] - 1)
        return tokens.squeeze(1), probabilities.gather(1, tokens).squeeze(1).log()


def with_probability(tokens: Tensor, probabilities: Tensor) -> Tensor:
    """The tokens, (W, 1), but the likeliest where one has no probability, (W, V).

    Sums in parallel round differently from place to place, which may lend a token without probability a share.
    """
    inside = tokens.clamp(max=probabilities.shape[-1] - 1)
    return tokens.where(probabilities.gather(1, inside) > 0, probabilities.argmax(-1, keepdim=True))


class ChoosingState:
    """What choosing remembers of W rows."""

    def __init__(self, places: Tensor, prompts: Sequence[Sequence[int]], grammar: GrammarState | None) -> None:
        """places: (W,) which request each row is. `prompts`: token ids, if a repetition penalty needs them."""
        self.step = 0
        self.grammar = grammar
        self._places = places
        self._prompts = prompts
        self._noise: Tensor | None = None  # (NOISE_BLOCK, W)
        self._seen: Tensor | None = None  # (W, V) bool: the tokens that a repetition penalty applies to

    def uniform(self, source: Noise) -> Tensor:
        """(W, 1) numbers of this step."""
        number, column = divmod(self.step, NOISE_BLOCK)
        if self._noise is None or column == 0:
            self._noise = source.block(number).index_select(1, self._places)
        return self._noise[column, :, None]

    def seen_in(self, scores: Tensor) -> Tensor:
        """(W, V) bool: what prompt and completion hold so far. scores: (W, V)."""
        import torch

        if self._seen is None:
            seen = torch.zeros(scores.shape, dtype=torch.bool)
            for row, prompt in zip(seen, self._prompts, strict=True):
                row[list(prompt)] = True
            self._seen = seen.to(scores.device)
        return self._seen

    def chosen(self, tokens: Tensor) -> None:
        """Take note of the tokens, (W,), and go on to the next step."""
        self.step += 1
        if self._seen is not None:
            self._seen.scatter_(1, tokens[:, None], True)
        if self.grammar is not None:
            self.grammar.chosen(tokens.tolist())

    def select(self, slots: Tensor) -> None:
        """Keep these rows, (M,) int64."""
        self._places = self._places[slots]
        if self._noise is not None:
            self._noise = self._noise.index_select(1, slots)
        if self._seen is not None:
            self._seen = self._seen[slots]
        if self.grammar is not None:
            self.grammar.select(slots.tolist())


def _from_the_best(ids: None, scores: Tensor) -> Tensor:
    """The scores less the best of each row, which no temperature makes too large for a float."""
    return scores - scores.amax(-1, keepdim=True)


def _warpers(sampling: SamplingOptions, extra: ExtraOptions, device: Any) -> list[Callable[[Tensor], Tensor]]:
    """The distribution's transformations that are on, in the order of transformers' `generate()`."""
    import transformers as hf

    made: list[Callable[..., Tensor]] = []
    if sampling.temperature < SMALL_TEMPERATURE:
        made.append(_from_the_best)
    if sampling.temperature != 1:
        made.append(hf.TemperatureLogitsWarper(max(float(sampling.temperature), LEAST_TEMPERATURE)))
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
