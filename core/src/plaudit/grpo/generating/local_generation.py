"""The generators that run the policy itself, in this process, as the configuration chooses between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...rollout.caches import CACHES, check_quanto
from ...rollout.continuous_batching import ContinuousBatchingGenerator, engine_options, refuse_options
from ...rollout.grammar import check_installed, refuse_with_structured
from ...rollout.options import resolve
from ...rollout.protocol import Generator, SamplingOptions
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
        in_step=in_step,
    )


def check_transformers_sampling(args: Any, sampling: SamplingOptions) -> None:
    """Raise ConfigError or UsageError on options that the chosen generator does not have, or that exclude others."""
    resolved, extra = resolve(sampling)
    if args.use_transformers_continuous_batching:
        engine_options(args.transformers_continuous_batching_config or {})
        refuse_options(resolved, extra)
        _check_correction(args, resolved)
    elif args.transformers_continuous_batching_config is not None:
        raise ConfigError(
            "transformers_continuous_batching_config is set, but use_transformers_continuous_batching is off; set "
            "it, or leave the settings out"
        )
    if resolved.structured is not None:
        check_installed()
        refuse_with_structured(extra)
    _check_cache(args)


def _check_correction(args: Any, sampling: SamplingOptions) -> None:
    if args.vllm_importance_sampling_correction and sampling.truncated:
        raise ConfigError(
            "continuous batching reports log-probs over the tokens that top_k and top_p leave, with which the policy's "
            "cannot be compared; set vllm_importance_sampling_correction=False, or leave top_k and top_p off"
        )


def _check_cache(args: Any) -> None:
    name = args.cache_implementation
    if name is None:
        return
    if args.use_transformers_continuous_batching:
        raise ConfigError(f"cache_implementation is {name!r}, but continuous batching has a cache of its own; unset it")
    if name not in CACHES:
        raise ConfigError(f"cache_implementation is {name!r}; it must be one of {', '.join(CACHES)}, or None")
    if name == "quantized":
        check_quanto()
