"""The generators that run the policy itself, in this process, as the configuration chooses between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...rollout.caches import CACHES, check_quanto
from ...rollout.continuous_batching import ContinuousBatchingGenerator, engine_options, refuse_options
from ...rollout.grammar import check_grammar
from ...rollout.options import ExtraOptions, resolve
from ...rollout.protocol import Generator, SamplingOptions
from ...rollout.replaying import check_compiling
from ...rollout.transformers_generator import TransformersGenerator
from ..checking.checks import ConfigError


def build_transformers_generator(
    args: Any, model: Any, tokenizer: Any, in_step: Callable[[bool], bool] | None = None
) -> Generator:
    """Our decode loop, or the continuous batching of transformers. `model`: the policy, unwrapped.

    `in_step`: see TransformersGenerator.
    """
    if args.use_transformers_continuous_batching:
        return ContinuousBatchingGenerator(model, tokenizer, args.transformers_continuous_batching_config)
    return TransformersGenerator(
        model,
        tokenizer,
        max_cache_tokens=args.max_cache_tokens,
        cache_implementation=args.cache_implementation,
        compile_decoding=args.compile_decoding,
        in_step=in_step,
    )


def check_transformers_sampling(args: Any, sampling: SamplingOptions) -> None:
    """Raise ConfigError or UsageError on options that the chosen generator does not have, or that exclude others."""
    resolved, extra = resolve(sampling)
    _check_cache(args)
    if args.use_transformers_continuous_batching:
        engine_options(args.transformers_continuous_batching_config or {})
        refuse_options(resolved, extra)
        _check_correction(args, resolved, extra, "continuous batching")
    elif args.transformers_continuous_batching_config is not None:
        raise ConfigError(
            "transformers_continuous_batching_config is set, but use_transformers_continuous_batching is off; set "
            "it, or leave the settings out"
        )
    if args.cache_implementation == "quantized":
        _check_correction(args, resolved, extra, "cache_implementation='quantized'")
    if resolved.structured is not None:
        check_grammar(resolved.structured, extra)


def _check_cache(args: Any) -> None:
    name = args.cache_implementation
    fields = ("cache_implementation", "compile_decoding", "max_cache_tokens")
    asked = [f"{field}={value!r}" for field in fields if (value := getattr(args, field))]
    if args.use_transformers_continuous_batching and asked:
        raise ConfigError(
            f"{', '.join(asked)} would be ignored, for continuous batching has a cache of its own; unset one of them"
        )
    if name is not None and name not in CACHES:
        raise ConfigError(f"cache_implementation is {name!r}; it must be one of {', '.join(CACHES)}, or None")
    if args.compile_decoding:
        check_compiling(name, args.device)
    if name == "quantized":
        check_quanto()


def _check_correction(args: Any, sampling: SamplingOptions, extra: ExtraOptions, engine: str) -> None:
    """Raise ConfigError where the sampler's log-probs are of another distribution than the policy's."""
    if not args.vllm_importance_sampling_correction:
        return
    reshaped = sampling.truncated or sampling.repetition_penalty != 1 or extra.narrows
    if reshaped or sampling.temperature != args.temperature:
        raise ConfigError(
            f"with {engine} the sampler's log-probs are compared with the policy's, which are over all tokens at "
            "`temperature`; set vllm_importance_sampling_correction=False, or leave out what changes them: top_k, "
            "top_p, min_p, penalties, structured output, and a temperature in generation_kwargs"
        )
