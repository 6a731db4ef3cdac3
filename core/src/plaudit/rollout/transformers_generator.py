"""The decode loop over a transformers model that lives in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .admission import WaitingList, cache_tokens_in_memory
from .caches import growing_cache, quantized_cache, refuse_cache
from .cohort import Cohort
from .decoders import Decoder, ModuleDecoder, vocabulary_size
from .folding import covered
from .fused_decoder import FusedDecoder
from .options import ExtraOptions, refuse_unknown_tokens, resolve
from .protocol import Generated, Request, SamplingOptions, check_prompts
from .replaying import compiled_step, cuda_graph, graphs_pay, refuse_compiling
from .sampling import Noise, TokenChooser
from .static_decoder import StaticDecoder, forward_step
from .stopping import StopRule, end_tokens

if TYPE_CHECKING:
    from .grammar import Constraint


class TransformersGenerator:
    """Generates with the weights as they are at the call: nothing to synchronise.

    Each distinct prompt is computed once and its KV cache shared out to its requests. Rows that finish leave the batch,
    and others take their place when all do not fit into memory at once.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        max_cache_tokens: int | None = None,
        cache_implementation: str | None = None,
        compile_decoding: bool = False,
        in_step: Callable[[bool], bool] | None = None,
    ) -> None:
        """`model`: a causal language model, unwrapped from DDP. `tokenizer`: its EOS counts; stop strings need it.

        `max_cache_tokens`: prompt and completion tokens, over all rows, that the KV cache may come to hold at a time;
        None = what half of the free memory holds. `cache_implementation`: one of `CACHES`; None = the fastest.
        `compile_decoding`: compile the decode step, which then has static shapes.
        `in_step`: for models whose forward all ranks must run together. It is called before each forward with whether
        this rank still decodes and says whether any rank does; where only others do, the forward's output is unused.
        """
        if compile_decoding:
            refuse_compiling(model, cache_implementation)
            cache_implementation = "static"
            if in_step is not None:
                raise UsageError(
                    "compile_decoding cannot decode in step with other ranks; leave it off, or let each rank have all "
                    "weights (ds3_gather_for_generation)"
                )
        refuse_cache(model, cache_implementation)
        self._model = model
        self._tokenizer = tokenizer
        self._max_cache_tokens = max_cache_tokens
        self._cache_implementation = cache_implementation
        self._forward = compiled_step() if compile_decoding else forward_step
        self._in_step = in_step
        self.exact = cache_implementation != "quantized"

    def generate(self, requests: Sequence[Request], sampling: SamplingOptions) -> Iterator[Generated]:
        """Yield completions as they finish; requests that end together come in their order.

        Raises UsageError on an empty prompt or an option that is not supported, before anything is computed. Between
        two completions the model is as it was before: the consumer may use it, but must not change its weights.
        """
        check_prompts(requests, vocabulary_size(self._model))
        if not requests and self._in_step is None:
            return iter(())
        room = self._max_cache_tokens or cache_tokens_in_memory(self._model)
        decoder_for = self._decoder_for
        return _Decoding(self._model, self._tokenizer, requests, sampling, room, decoder_for, self._in_step).run()

    def refresh(self, step: int) -> None:
        """Nothing: it generates with the policy itself."""

    def close(self) -> None:
        """Nothing is held between calls."""

    def _decoder_for(self, longest: int, tokens: int) -> Decoder:
        """The decoder for rows of at most `longest` tokens, of which their completions have at most `tokens`."""
        model, name, alone = self._model, self._cache_implementation, self._in_step is None
        graphs = alone and name in (None, "static") and graphs_pay(model, tokens)
        if name == "static" or graphs:
            capture = cuda_graph if graphs else None
            return StaticDecoder(model, longest=longest, forward=self._forward, capture=capture)
        if alone and name is None and covered(model):
            return FusedDecoder(model, longest=longest)
        return ModuleDecoder(model, quantized_cache(model) if name == "quantized" else growing_cache(model))


class _Decoding:
    """One call of generate(): requests wait, run in cohorts that take turns, and finish."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        requests: Sequence[Request],
        sampling: SamplingOptions,
        room: int,
        decoder_for: Callable[[int, int], Decoder],
        in_step: Callable[[bool], bool] | None,
    ) -> None:
        sampling, extra = resolve(sampling)
        refuse_unknown_tokens(extra, vocabulary_size(model))
        end_ids = end_tokens(model, tokenizer, extra)
        self._model = model
        self._modules = list(model.modules())
        self._requests = requests
        self._limit = sampling.max_new_tokens
        self._decoder_for = decoder_for
        self._in_step = in_step
        self._finish = StopRule(sampling.stop, end_ids, tokenizer, model.device)
        self._choose = TokenChooser(
            sampling,
            extra,
            Noise(requests, sampling.seed, model.device),
            eos_ids=sorted(end for end in end_ids if end < vocabulary_size(model)),
            device=model.device,
            constraint=_constraint(model, tokenizer, sampling, extra, sorted(end_ids)),
        )
        self._waiting = WaitingList(requests, limit=self._limit, max_cache_tokens=room)
        self._cohorts: deque[Cohort] = deque()

    def run(self) -> Iterator[Generated]:
        """Decode until some rows finish, yield them, go on."""
        done: list[Generated] | None = []
        while done is not None:
            yield from done
            with self._evaluating():
                done = self._turn()
                while done == []:
                    done = self._turn()

    def _turn(self) -> list[Generated] | None:
        """One forward: of a new cohort if there is room, else of the next in turn. None when all is done."""
        busy = bool(self._cohorts or len(self._waiting))
        if not (busy if self._in_step is None else self._in_step(busy)):
            return None
        if not busy:
            _idle_forward(self._model)
            return []
        admitted = self._waiting.admit(sum(cohort.max_tokens for cohort in self._cohorts))
        cohort = self._cohort(admitted) if admitted else self._cohorts.popleft()
        done = cohort.advance()
        if cohort:
            self._cohorts.append(cohort)
        return done

    def _cohort(self, places: Sequence[int]) -> Cohort:
        requests = [self._requests[place] for place in places]
        return Cohort(requests, places, self._decoder_for, self._choose, self._finish, limit=self._limit)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """No gradients and every module in eval mode, so without dropout and gradient checkpointing; then as it was."""
        import torch

        training = [vars(module) for module in self._modules if module.training]
        for state in training:
            state["training"] = False
        try:
            with torch.no_grad():
                yield
        finally:
            for state in training:
                state["training"] = True


def _constraint(
    model: Any, tokenizer: Any, sampling: SamplingOptions, extra: ExtraOptions, end_ids: Sequence[int]
) -> Constraint | None:
    if sampling.structured is None:
        return None
    from .grammar import Constraint, refuse_with_structured

    refuse_with_structured(extra)
    return Constraint(sampling.structured, tokenizer, end_ids, model.config.get_text_config().vocab_size)


def _idle_forward(model: Any) -> None:
    """The smallest forward there is, for ranks that wait for others."""
    import torch

    model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device), use_cache=False)
