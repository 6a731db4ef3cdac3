"""Generation with the continuous batching engine of transformers: a paged cache, made for large GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from ..errors import PlauditError, UsageError
from ..types import FinishReason
from .decoders import vocabulary_size
from .options import ExtraOptions, resolve, unknown_option
from .protocol import Generated, Request, SamplingOptions, check_prompts
from .stopping import end_tokens

MEMORY_PERCENT = 0.5  # of what is free; transformers' own 0.9 would leave nothing to train with
OURS = ("return_logprobs", "seed", "per_request_processors", "drop_unsupported_processors", "max_queue_size")
POLL_S = 1.0


class ContinuousBatchingGenerator:
    """Generates with the weights as they are at the call, in a thread of transformers' own.

    Between two completions that thread uses the model, so the consumer must not. `exact` is False: attention over pages
    rounds differently from the policy's own forward.
    """

    exact = False

    def __init__(self, model: Any, tokenizer: Any = None, options: Mapping[str, Any] | None = None) -> None:
        """`model`: a causal language model, perhaps with LoRA adapters. `tokenizer`: its EOS counts.

        `options`: fields of transformers' ContinuousBatchingConfig. Raises UsageError on one that it does not have.
        """
        self._options = engine_options(options or {})
        if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
            raise UsageError(
                "continuous batching cannot generate with learnt prompts (PEFT); use LoRA, or leave it out"
            )
        self._policy = model
        self._model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._tokenizer = tokenizer

    def generate(self, requests: Sequence[Request], sampling: SamplingOptions) -> Iterator[Generated]:
        """Yield completions as they finish.

        Raises UsageError on an empty prompt or an option that the engine does not have, before anything is computed.
        """
        sampling, extra = resolve(sampling)
        refuse_options(sampling, extra)
        check_prompts(requests, vocabulary_size(self._model))
        for request in requests:
            if request.seed is not None:
                raise UsageError("continuous batching has no seeds per request; leave Request.seed at None")
        return self._stream(requests, sampling, extra) if requests else iter(())

    def refresh(self, step: int) -> None:
        """Nothing: it generates with the policy itself, and no cache outlives a call."""

    def close(self) -> None:
        """Nothing is held between calls."""

    def _stream(
        self, requests: Sequence[Request], sampling: SamplingOptions, extra: ExtraOptions
    ) -> Iterator[Generated]:
        end_ids = end_tokens(self._model, self._tokenizer, extra)
        with self._engine(requests, sampling, sorted(end_ids)) as engine:
            for _ in requests:
                done = None
                while done is None:
                    done = engine.get_result(timeout=POLL_S)
                    if done is None and not engine.is_running():
                        raise PlauditError(
                            f"continuous batching ended early: {engine.background_thread_status.fatal_error}"
                        )
                if done.error is not None:
                    raise PlauditError(f"continuous batching failed: {done.error}")
                ids = tuple(done.generated_tokens)
                ended: FinishReason = "stop" if ids[-1] in end_ids else "length"
                yield Generated(requests[int(done.request_id)].index, ids, tuple(done.logprobs), ended)

    @contextmanager
    def _engine(self, requests: Sequence[Request], sampling: SamplingOptions, end_ids: Sequence[int]) -> Iterator[Any]:
        """A running engine that has been given the requests; afterwards model and random state are as they were."""
        import torch
        from transformers import ContinuousBatchingConfig, GenerationConfig
        from transformers.generation.continuous_batching.utils import WorkloadHints

        seed = int(torch.randint(2**31, ())) if sampling.seed is None else sampling.seed
        longest = max(len(request.prompt_ids) for request in requests)
        with _left_as_it_was(self._policy), torch.no_grad():
            engine = self._model.init_continuous_batching(
                GenerationConfig(**_sampling(sampling), eos_token_id=list(end_ids) or [-1], pad_token_id=0),
                ContinuousBatchingConfig(**self._options, return_logprobs=True, seed=seed),
                WorkloadHints(longest, sampling.max_new_tokens, len(requests)),
            )
            # Given before it starts, so that the same requests make the same batches.
            for place, request in enumerate(requests):
                limit = request.limit(sampling.max_new_tokens)
                engine.add_request(list(request.prompt_ids), request_id=str(place), max_new_tokens=limit)
            engine.start()
            finished = False
            try:
                yield engine
                finished = True
            finally:
                engine.stop(block=True, hard_stop=not finished)
                engine.destroy()


def engine_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the engine, with the default of max_memory_percent. Raises UsageError on an unknown name."""
    try:
        from transformers import ContinuousBatchingConfig
    except ImportError:
        raise UsageError("continuous batching needs transformers >= 5.8; upgrade it, or leave it out") from None
    known = [item.name for item in fields(ContinuousBatchingConfig) if item.name not in OURS]
    for name in given:
        if name in OURS:
            raise UsageError(f"transformers_continuous_batching_config: {name!r} is set by the generator; leave it out")
        if name not in known:
            message = unknown_option(name, known).removeprefix("generation_kwargs: ")
            raise UsageError(f"transformers_continuous_batching_config: {message}")
    return {"max_memory_percent": MEMORY_PERCENT, **given}


def refuse_options(sampling: SamplingOptions, extra: ExtraOptions) -> None:
    """Raise UsageError naming each option that the engine does not have."""
    default = SamplingOptions()
    unknown = ["min_p", "repetition_penalty", "stop", "structured"]
    asked = [name for name in unknown if getattr(sampling, name) not in (getattr(default, name), 0.0)]
    plain = ExtraOptions(do_sample=extra.do_sample, eos_token_id=extra.eos_token_id)
    asked += [item.name for item in fields(extra) if getattr(extra, item.name) != getattr(plain, item.name)]
    if asked:
        raise UsageError(
            f"transformers' continuous batching has no {', '.join(asked)}; leave it out, or set "
            "use_transformers_continuous_batching=False"
        )


def _sampling(sampling: SamplingOptions) -> dict[str, Any]:
    """Fields of a GenerationConfig."""
    if sampling.greedy:
        return {"max_new_tokens": sampling.max_new_tokens, "do_sample": False}
    return {
        "max_new_tokens": sampling.max_new_tokens,
        "do_sample": True,
        "temperature": float(sampling.temperature),
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
    }


@contextmanager
def _left_as_it_was(model: Any) -> Iterator[None]:
    """The engine puts modules into eval mode and seeds torch's global random state: undo both."""
    import torch

    training = [module for module in model.modules() if module.training]
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            for module in training:
                module.training = True
