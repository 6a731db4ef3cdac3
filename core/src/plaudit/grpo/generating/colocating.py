"""What a run says of vLLM and of the correction for its numerics, and the engine that shares the trainer's devices."""

from __future__ import annotations

from typing import Any

from ...rollout.protocol import Generator, SamplingOptions
from ...rollout.vllm.engine import EngineOptions, require_vllm
from ...rollout.vllm.sampling import resolve_for_vllm
from ..checking.checks import ConfigError
from ..policy.seeing import is_processor, tokenizer_of

# What shifts the engine's distribution in a way that is not computed again.
_SHIFTING = ("presence_penalty", "frequency_penalty", "logit_bias")
_NARROWING = ("allowed_token_ids", "bad_words")


def check_vllm(args: Any, sampling: SamplingOptions, *, converses: bool) -> None:
    """Raise ConfigError on settings of vLLM that cannot work together. `converses`: rollouts have several turns.

    Looks at the sampling options as `generation_kwargs` change them; what the fields alone say was checked before.
    """
    if not args.use_vllm:
        return
    if args.vllm_mode == "colocate":
        require_vllm()
        _check_devices(args)
    if args.vllm_importance_sampling_correction:
        _check_corrected(args, sampling, converses)


def build_colocated_generator(args: Any, model: Any, processing_class: Any, sampling: SamplingOptions) -> Generator:
    """The generator of a run with vLLM in its own processes. `model`: the policy, unwrapped."""
    from ...rollout.vllm.colocate import ColocatedGenerator

    rows = max(args.per_device_train_batch_size * args.steps_per_generation, args.per_device_eval_batch_size)
    candidates = bool(args.vllm_importance_sampling_correction and resolve_for_vllm(sampling)[0].top_k)
    options = EngineOptions(
        rows=rows * args.vllm_tensor_parallel_size,
        max_model_length=args.vllm_max_model_length,
        memory_share=args.vllm_gpu_memory_utilization,
        tensor_parallel=args.vllm_tensor_parallel_size,
        model_impl=args.vllm_model_impl,
        dtype=_dtype(args, model),
        logprobs=resolve_for_vllm(sampling)[0].top_k if candidates else 0,
        sleeps=args.vllm_enable_sleep_mode,
        trust_remote_code=args.trust_remote_code,
    )
    processor = processing_class if is_processor(processing_class) else None
    tokenizer = tokenizer_of(processing_class)
    return ColocatedGenerator(model, tokenizer, options, candidates=candidates, processor=processor)


def _dtype(args: Any, model: Any) -> str:
    """What the policy computes in: with mixed precision not what its weights are kept in."""
    if args.bf16 or args.fp16:
        return "bfloat16" if args.bf16 else "float16"
    # A head may be kept in float32 by itself, and share its weight with the embeddings.
    head = model.get_output_embeddings().weight
    return str(next(weight.dtype for weight in model.parameters() if weight is not head)).removeprefix("torch.")


def _check_devices(args: Any) -> None:
    if args.vllm_enable_sleep_mode and args.device.type == "cpu":
        raise ConfigError("vllm_enable_sleep_mode frees memory of a GPU, and this run has none; leave it out")
    if args.world_size % args.vllm_tensor_parallel_size:
        raise ConfigError(
            f"vllm_tensor_parallel_size ({args.vllm_tensor_parallel_size}) must divide the number of processes "
            f"({args.world_size}): an engine is spread over that many of them"
        )


def _check_corrected(args: Any, sampling: SamplingOptions, converses: bool) -> None:
    resolved, extra, own = resolve_for_vllm(sampling)
    off = "or set vllm_importance_sampling_correction=False"
    if resolved.temperature != args.temperature:
        raise ConfigError(
            f"generation_kwargs sets temperature {resolved.temperature}, but log-probs are computed at temperature "
            f"{args.temperature}; set the field `temperature` in its place"
        )
    shifting = [name for name in _SHIFTING if own.get(name)]
    if resolved.repetition_penalty != 1:
        shifting.append("repetition_penalty")
    if shifting:
        raise ConfigError(
            f"{', '.join(shifting)} changes the engine's log-probs in a way that is not computed again; leave it out, "
            f"{off}"
        )
    narrowing = [name for name in _NARROWING if own.get(name)]
    narrowing += [name for name in ("min_new_tokens", "suppress_tokens") if getattr(extra, name)]
    narrowing += ["structured output"] if resolved.structured is not None else []
    narrowing += ["top_p"] if resolved.top_p < 1 else []
    narrowing += ["min_p"] if resolved.min_p else []
    if narrowing and not resolved.top_k:
        raise ConfigError(
            f"{', '.join(narrowing)} with vllm_importance_sampling_correction: log-probs are compared over the tokens "
            f"that were candidates, whose number must be bounded; set top_k=512 too, {off}"
        )
    if resolved.top_k and converses:
        raise ConfigError(
            "top_k with vllm_importance_sampling_correction: the candidates of tokens are not kept over several turns; "
            f"leave top_k out, {off}"
        )
