"""Where the log-probs of the policy that generated come from: nowhere, the sampler, or a forward pass of their own."""

from __future__ import annotations

from typing import Any

import torch

from ...rollout.protocol import SamplingOptions
from ...rollout.transformers_generator import TransformersGenerator
from ..collecting import Collector
from ..writing import SingleTurnWriter


def needs_old_logprobs(args: Any) -> bool:
    """Whether a generation batch outlives an optimizer step, so that the policy moves before or while it is used."""
    if args.reward_lookahead:
        return True
    return args.gradient_accumulation_steps % (args.steps_per_generation * args.num_iterations) != 0


def sampler_is_policy(args: Any, collector: Collector, policy: Any) -> bool:
    """Whether the log-probs that come with completions are the policy's, to float32 rounding.

    The same weights and numerics must have drawn each token from the whole distribution at the run's temperature: with
    half-precision weights or mixed precision, decoding and training differ by far more than rounding.
    """
    writer = collector.writer
    single = all(parameter.dtype in (torch.float32, torch.float64) for parameter in policy.parameters())
    return (
        isinstance(writer, SingleTurnWriter)
        and isinstance(writer.generator, TransformersGenerator)
        and writer.generator.exact
        and _whole(collector.sampling)
        and single
        and not (args.bf16 or args.fp16)
    )


def _whole(sampling: SamplingOptions) -> bool:
    return not (sampling.truncated or sampling.greedy or sampling.repetition_penalty != 1 or sampling.generation_kwargs)
