"""The decode loop over a transformers model that lives in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError
from ..types import FinishReason
from .decoders import Decoder
from .fused_decoder import decoder_for
from .options import resolve
from .protocol import Generated, Request, SamplingOptions
from .sampling import TokenChooser
from .stopping import StopRule, end_tokens


class TransformersGenerator:
    """Generates with the weights as they are at the call: nothing to synchronise.

    Each distinct prompt is computed once and its KV cache shared out to its requests. Rows that finish leave the batch.
    """

    def __init__(self, model: Any, tokenizer: Any = None) -> None:
        """`model`: a causal language model, unwrapped from DDP. `tokenizer`: its EOS counts; stop strings need it."""
        self._model = model
        self._tokenizer = tokenizer

    def generate(self, requests: Sequence[Request], sampling: SamplingOptions) -> Iterator[Generated]:
        """Yield completions as they finish; requests that end together come in their order.

        Raises UsageError on an empty prompt or an option that is not supported, before anything is computed.
        """
        for request in requests:
            if not request.prompt_ids:
                raise UsageError(f"request {request.index} has an empty prompt; a prompt needs at least one token")
        return _Decoding(self._model, self._tokenizer, requests, sampling).run() if requests else iter(())


@dataclass(slots=True)
class _Row:
    """A completion in the making. `place`: which of the N requests it is."""

    place: int
    index: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def finished(self, reason: FinishReason) -> Generated:
        return Generated(self.index, tuple(self.ids), tuple(self.logprobs), reason)


class _Decoding:
    """One call of generate()."""

    def __init__(self, model: Any, tokenizer: Any, requests: Sequence[Request], sampling: SamplingOptions) -> None:
        sampling, extra = resolve(sampling)
        end_ids = end_tokens(model, tokenizer, extra)
        prompts = [request.prompt_ids for request in requests]
        self._model = model
        self._prompts = list(dict.fromkeys(prompts))
        group = {prompt: number for number, prompt in enumerate(self._prompts)}
        self._groups = [group[prompt] for prompt in prompts]
        self._rows: list[_Row | None] = [_Row(place, request.index) for place, request in enumerate(requests)]
        self._finish = StopRule(sampling, end_ids, tokenizer)
        self._decoder: Decoder = decoder_for(model, longest=max(map(len, prompts)) + sampling.max_new_tokens)
        self._choose = TokenChooser(
            sampling,
            extra,
            prompts,
            eos_ids=sorted(end_ids),
            vocab_size=model.get_output_embeddings().weight.shape[0],
            device=model.device,
        )
        self._steps = 0

    def run(self) -> Iterator[Generated]:
        """Decode until some rows finish, yield them, go on."""
        with _evaluating(self._model):
            logits = self._prefill()
        while self._rows:
            with _evaluating(self._model):
                logits, done = self._advance(logits)
            yield from done

    def _prefill(self) -> Any:
        import torch

        logits = self._decoder.prefill(self._prompts)
        groups = torch.tensor(self._groups, device=logits.device)
        self._decoder.select(groups)
        self._places = torch.arange(len(self._rows), device=logits.device)
        return logits[groups]

    def _advance(self, logits: Any) -> tuple[Any, list[Generated]]:
        """Take steps until at least one row finishes. Returns the logits for the next step, (W, V), and the finished."""
        while True:
            tokens, logprobs = self._choose(logits, self._places, self._steps)
            self._steps += 1
            done = self._record(tokens.tolist(), logprobs.tolist())
            tokens = self._compacted(tokens)
            if not self._rows:
                return None, done
            logits = self._decoder.step(tokens)
            if done:
                return logits, done

    def _record(self, tokens: list[int], logprobs: list[float]) -> list[Generated]:
        """Append the new token to each row; a finished row's slot becomes None."""
        done = []
        for slot, row in enumerate(self._rows):
            if row is None:
                continue
            row.ids.append(tokens[slot])
            row.logprobs.append(logprobs[slot])
            reason = self._finish(row.ids)
            if reason is not None:
                done.append(row.finished(reason))
                self._rows[slot] = None
        return done

    def _compacted(self, tokens: Any) -> Any:
        """Drop the finished rows when they are an eighth of the batch: to copy the cache for fewer costs more."""
        import torch

        live = [slot for slot, row in enumerate(self._rows) if row is not None]
        if not live:
            self._rows = []
        elif (len(self._rows) - len(live)) * 8 >= len(self._rows):
            slots = torch.tensor(live, device=tokens.device)
            self._decoder.select(slots)
            self._rows = [self._rows[slot] for slot in live]
            self._places, tokens = self._places[slots], tokens[slots]
        return tokens


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """No gradients, and every module in eval mode (so no dropout and no gradient checkpointing); then as it was."""
    import torch

    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True
