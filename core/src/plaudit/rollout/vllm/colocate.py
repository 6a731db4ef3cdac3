"""Generation by a vLLM engine in this process, which shares the policy's devices and takes over its weights."""

from __future__ import annotations

import contextlib
import itertools
import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import UsageError
from ..policy_weights import moved_since, policy_weights
from ..protocol import Generated, Request, SamplingOptions
from ..stopping import end_tokens
from .engine import EngineOptions, start_engine, stop_engine
from .pictures import PicturePrompts
from .sampling import resolve_for_vllm, vllm_sampling

MOST_SEEDS = 2**62


class ColocatedGenerator:
    """Writes completions with vLLM. Its log-probs are those of vLLM's kernels, close to the policy's but not the same.

    Tokens are drawn from torch's global random state unless there are seeds. `refresh` pushes the weights when the
    policy moved, adapters merged, and empties the prefix cache. With `options.sleeps` the engine's memory is free
    between two calls of `generate`: weights are pushed again when it wakes.
    """

    exact = False

    def __init__(
        self, model: Any, tokenizer: Any, options: EngineOptions, *, candidates: bool = False, processor: Any = None
    ) -> None:
        """`model`: the policy, unwrapped from DDP. `candidates`: with top_k, say what each token was drawn from.

        `processor`: of a vision-language model. Raises UsageError where vLLM is not installed, or cannot run the model.
        """
        import torch

        _refuse_unloadable(model)
        self._model, self._tokenizer, self._options = model, tokenizer, options
        self._candidates, self._processor = candidates, processor
        owns_group = not torch.distributed.is_initialized()
        self._engine = start_engine(model, tokenizer, options, processor)
        self._stop = weakref.finalize(self, stop_engine, self._engine, owns_group=owns_group)
        self._step: int | None = None
        self._versions: tuple[int, ...] | None = None
        self._asleep = False
        self._empty = True  # whether the engine has none of the policy's weights
        self._names = itertools.count()
        self._sleep()

    @property
    def max_model_length(self) -> int:
        """Tokens that prompt and completion may have together."""
        return int(self._engine.vllm_config.model_config.max_model_len)

    @property
    def together(self) -> bool:
        """Whether ranks share an engine, so that all of them must generate at once."""
        return self._options.tensor_parallel > 1

    def refresh(self, step: int) -> None:
        """Push the policy's weights if it moved since the last push; every rank must call this."""
        moved, versions = moved_since(self._model, self._versions)
        if moved or step != self._step:
            self._wake()
            self._push()
            self._step, self._versions = step, versions

    def generate(self, requests: Sequence[Request], sampling: SamplingOptions) -> Iterator[Generated]:
        """Yield completions as they finish. Raises UsageError on a prompt without tokens or too long, at once."""
        arguments = vllm_sampling(sampling, end_tokens(self._model, self._tokenizer, resolve_for_vllm(sampling)[1]))
        seed = resolve_for_vllm(sampling)[0].seed
        for request in requests:
            self._check_prompt(request)
        if self._options.tensor_parallel == 1:
            return self._run(requests, arguments, seed)
        # The ranks of an engine step together, so none may stop half-way: all is written before the first is given.
        return iter(list(self._run_together(requests, arguments, seed)))

    def close(self) -> None:
        """Stop the engine. Calling it again does nothing."""
        self._stop()

    def _run(self, requests: Sequence[Request], arguments: dict[str, Any], seed: int | None) -> Iterator[Generated]:
        waiting = self._submit(requests, arguments, seed)
        try:
            while waiting:
                with _uncompiled():
                    outputs = self._engine.step()
                for output in outputs:
                    index = waiting.pop(output.request_id)
                    yield self._generated(index, output.outputs[0])
        finally:
            if waiting:
                self._engine.abort_request(list(waiting))
            self._sleep()

    def _run_together(
        self, requests: Sequence[Request], arguments: dict[str, Any], seed: int | None
    ) -> Iterator[Generated]:
        """One engine over several ranks: each writes the completions of all of them and keeps its own."""
        import torch
        from vllm.distributed.parallel_state import get_tp_group

        group = get_tp_group()
        shared: list[Any] = [None] * group.world_size
        drawn = int(torch.randint(MOST_SEEDS, ())) if seed is None else seed
        torch.distributed.all_gather_object(shared, (list(requests), drawn), group=group.cpu_group)
        everyone, own = [request for share, _ in shared for request in share], group.rank_in_group
        before = sum(len(share) for share, _ in shared[:own])
        numbered = [replace(request, index=place) for place, request in enumerate(everyone)]
        for made in self._run(numbered, arguments, shared[0][1]):
            if 0 <= made.index - before < len(requests):
                index = requests[made.index - before].index
                yield Generated(index, made.completion_ids, made.logprobs, made.finish_reason, made.candidates)

    def _submit(self, requests: Sequence[Request], arguments: dict[str, Any], seed: int | None) -> dict[str, int]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        self._wake()
        if self._empty:
            self._push()
        chosen = dict(arguments)
        if self._candidates and chosen["temperature"] > 0:
            chosen["logprobs"] = chosen["top_k"]
        if "structured_outputs" in chosen:
            chosen["structured_outputs"] = StructuredOutputsParams(**chosen["structured_outputs"])
        final = RequestOutputKind.FINAL_ONLY
        chosen |= {"detokenize": bool(chosen["stop"]), "output_kind": final, "flat_logprobs": True}
        waiting: dict[str, int] = {}
        prompts = PicturePrompts(self._engine)
        for place, request in enumerate(requests):
            own = request.seed if request.seed is not None else None if seed is None else (seed + place) % MOST_SEEDS
            name = str(next(self._names))
            with _refusals_as_usage_errors():
                parameters = SamplingParams(**chosen | _lengths(request, chosen), seed=own)
                self._engine.add_request(name, prompts.prompt(request), parameters)
            waiting[name] = request.index
        return waiting

    def _generated(self, index: int, output: Any) -> Generated:
        if output.finish_reason not in ("stop", "length"):
            raise RuntimeError(f"vLLM ended completion {index} with {output.finish_reason!r}")
        found = output.logprobs
        starts, ends = found.start_indices, found.end_indices
        candidates = None
        if self._candidates and any(end - start > 1 for start, end in zip(starts, ends, strict=True)):
            candidates = tuple(
                tuple(dict.fromkeys(found.token_ids[at] for at in range(start, end) if found.logprobs[at] > -math.inf))
                for start, end in zip(starts, ends, strict=True)
            )
        # The drawn token comes first at each position.
        logprobs = tuple(found.logprobs[start] for start in starts)
        return Generated(index, tuple(output.token_ids), logprobs, output.finish_reason, candidates)

    def _check_prompt(self, request: Request) -> None:
        length, limit = len(request.prompt_ids), self.max_model_length
        if request.media is not None and self._processor is None:
            raise UsageError(f"request {request.index} has images, but this vLLM was started without a processor")
        if not length:
            raise UsageError(f"request {request.index} has an empty prompt; a prompt needs at least one token")
        if length >= limit:
            raise UsageError(
                f"request {request.index} has a prompt of {length} tokens, but vLLM takes {limit} with the completion; "
                "shorten it, or raise vllm_max_model_length"
            )

    def _push(self) -> None:
        """Load every weight, and forget what was computed with the old ones."""
        missing = self._engine.apply_model(self._load)[0]
        if missing:
            raise UsageError(
                f"vLLM's implementation of the model has weights that the policy does not have: {', '.join(missing)}; "
                "set vllm_model_impl='transformers', or generate without vLLM"
            )
        if not self._engine.reset_prefix_cache():
            raise RuntimeError("vLLM is still writing completions; finish or close them before the next refresh")
        if self._processor is not None:
            self._engine.reset_encoder_cache()
        self._empty = False

    def _load(self, engine_model: Any) -> list[str]:
        loaded = engine_model.load_weights(policy_weights(self._model))
        wanted = {name for name, _ in engine_model.named_parameters()}
        return sorted(wanted - set(loaded)) if loaded else []

    def _sleep(self) -> None:
        """Free the engine's memory. The weights are thrown away: the policy has them."""
        if self._options.sleeps and not self._asleep:
            self._engine.sleep(level=2)
            self._asleep = True

    def _wake(self) -> None:
        if self._asleep:
            self._engine.wake_up()
            self._asleep, self._empty = False, True


def _lengths(request: Request, chosen: Mapping[str, Any]) -> dict[str, int]:
    """Fewest and most tokens of a completion."""
    most = request.limit(chosen["max_tokens"])
    return {"max_tokens": most, "min_tokens": min(chosen["min_tokens"], most)}


@contextlib.contextmanager
def _uncompiled() -> Iterator[None]:
    """Small functions of vLLM are compiled at their first call, which costs more on a CPU than it gains."""
    import torch
    from vllm.platforms import current_platform

    with torch.compiler.set_stance("force_eager") if current_platform.is_cpu() else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def _refusals_as_usage_errors() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(f"vLLM refuses these sampling options: {error}") from error


def _refuse_unloadable(model: Any) -> None:
    """Raise UsageError on weights that the engine's copy cannot follow: packed ones, and tied ones that are untied."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    if getattr(base, "is_quantized", False):
        raise UsageError(
            "the policy's weights are quantised, which vLLM in the trainer cannot take over; leave use_vllm out, "
            "or load the model unquantised"
        )
    configs = (base.config.get_text_config(), base.config)  # a vision-language model says it in the outer one
    tied = any(getattr(config, "tie_word_embeddings", False) for config in configs)
    for part in (base.get_input_embeddings(), base.get_output_embeddings()) if tied else ():
        if hasattr(part, "base_layer") or hasattr(part, "modules_to_save"):
            raise UsageError(
                "the adapter changes an embedding that the model ties to its head, which vLLM cannot follow; leave "
                "embed_tokens and lm_head out of target_modules and modules_to_save"
            )
