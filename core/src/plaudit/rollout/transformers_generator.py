"""The decode loop over a transformers model that lives in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .fused_decoder import decoder_for
from .options import resolve
from .protocol import Generated, Request, SamplingOptions
from .sampling import TokenChooser
from .stopping import StopRule, end_tokens

if TYPE_CHECKING:
    from torch import Tensor

COLUMNS = 64


class TransformersGenerator:
    """Generates with the weights as they are at the call: nothing to synchronise.

    Each distinct prompt is computed once and its KV cache shared out to its requests. Rows that finish leave the batch.
    """

    exact = True

    def __init__(self, model: Any, tokenizer: Any = None) -> None:
        """`model`: a causal language model, unwrapped from DDP. `tokenizer`: its EOS counts; stop strings need it."""
        self._model = model
        self._tokenizer = tokenizer

    def generate(self, requests: Sequence[Request], sampling: SamplingOptions) -> Iterator[Generated]:
        """Yield completions as they finish; requests that end together come in their order.

        Raises UsageError on an empty prompt or an option that is not supported, before anything is computed. Between
        two completions the model is as it was before: the consumer may use it, but must not change its weights.
        """
        for request in requests:
            if not request.prompt_ids:
                raise UsageError(f"request {request.index} has an empty prompt; a prompt needs at least one token")
        return _Decoding(self._model, self._tokenizer, requests, sampling).run() if requests else iter(())

    def refresh(self, step: int) -> None:
        """Nothing: it generates with the policy itself."""

    def close(self) -> None:
        """Nothing is held between calls."""


class _Decoding:
    """One call of generate(): N requests over U prompts, of which W are in the batch at a time."""

    def __init__(self, model: Any, tokenizer: Any, requests: Sequence[Request], sampling: SamplingOptions) -> None:
        sampling, extra = resolve(sampling)
        end_ids = end_tokens(model, tokenizer, extra)
        prompts = [request.prompt_ids for request in requests]
        self._model = model
        self._modules = list(model.modules())
        self._prompts = list(dict.fromkeys(prompts))
        self._group_of = {prompt: number for number, prompt in enumerate(self._prompts)}
        self._requests = requests
        self._limit = sampling.max_new_tokens
        self._finish = StopRule(sampling.stop, end_ids, tokenizer, model.device)
        self._choose = TokenChooser(
            sampling,
            extra,
            prompts,
            eos_ids=sorted(end_ids),
            device=model.device,
        )
        self._steps = 0

    def run(self) -> Iterator[Generated]:
        """Decode until some rows finish, yield them, go on."""
        with self._evaluating():
            logits = self._prefill()
        while len(self._places):
            with self._evaluating():
                logits, done = self._advance(logits)
            yield from done

    def _prefill(self) -> Tensor:
        """Compute the prompts, set the batch up with all requests. Returns the first step's logits, (N, V)."""
        import torch

        longest = max(map(len, self._prompts)) + self._limit
        self._decoder = decoder_for(self._model, longest=longest)
        logits = self._decoder.prefill(self._prompts)
        groups = torch.tensor([self._group_of[request.prompt_ids] for request in self._requests], device=logits.device)
        self._decoder.select(groups)
        count = len(self._requests)
        self._places = torch.arange(count, device=logits.device)  # (W,): which request each row is
        self._live = torch.ones(count, dtype=torch.bool, device=logits.device)  # (W,)
        self._tokens = self._places.new_zeros(count, COLUMNS)  # (N, columns)
        self._logprobs = logits.new_zeros(count, COLUMNS, dtype=torch.float32)
        return logits[groups]

    def _advance(self, logits: Tensor) -> tuple[Tensor, list[Generated]]:
        """Step until at least one row finishes. Returns the next step's logits, (W, V), and the finished."""
        while True:
            tokens, logprobs = self._choose(logits, self._places, self._steps)
            done = self._record(tokens, logprobs)
            if done:
                tokens = self._compacted(tokens)
            if len(tokens):
                logits = self._decoder.step(tokens)
            if done:
                return logits, done

    def _record(self, tokens: Tensor, logprobs: Tensor) -> list[Generated]:
        """Write the new column, (W,) each, down. Returns the completions that it ends."""
        import torch

        column, self._steps = self._steps, self._steps + 1
        if column == self._tokens.shape[1]:
            self._tokens, self._logprobs = (
                torch.cat([table, torch.zeros_like(table)], dim=1) for table in (self._tokens, self._logprobs)
            )
        self._tokens[self._places, column] = tokens
        self._logprobs[self._places, column] = logprobs
        ended = self._finish(self._tokens[self._places, : self._steps])
        finished = self._live if self._steps == self._limit else ended & self._live
        slots = finished.nonzero().flatten()
        if not len(slots):
            return []
        self._live = self._live & ~finished
        return self._generated(self._places[slots], ended[slots].tolist())

    def _generated(self, places: Tensor, ended: Sequence[bool]) -> list[Generated]:
        ids = self._tokens[places, : self._steps].tolist()
        logprobs = self._logprobs[places, : self._steps].tolist()
        return [
            Generated(self._requests[place].index, tuple(row), tuple(marks), "stop" if stopped else "length")
            for place, row, marks, stopped in zip(places.tolist(), ids, logprobs, ended, strict=True)
        ]

    def _compacted(self, tokens: Tensor) -> Tensor:
        """Drop the finished rows once they are an eighth of the batch: copying the cache for fewer costs more.

        Returns the tokens, (W,), of the rows that stay.
        """
        slots = self._live.nonzero().flatten()
        if len(slots) > 0 and (len(tokens) - len(slots)) * 8 < len(tokens):
            return tokens
        if len(slots):
            self._decoder.select(slots)
        self._places, self._live = self._places[slots], self._live[slots]
        return tokens[slots]

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """No gradients and every module in eval mode, so without dropout and gradient checkpointing; then as it was."""
        import torch

        training = [module for module in self._modules if module.training]
        for module in training:
            module.training = False
        try:
            with torch.no_grad():
                yield
        finally:
            for module in training:
                module.training = True
