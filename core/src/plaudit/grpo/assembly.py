"""Puts the parts of a run together: who writes, who scores, who remembers. `args` is always the run's GRPOConfig."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from ..rollout.protocol import SamplingOptions
from ..rollout.transformers_generator import TransformersGenerator
from ..scoring.scorer import Scorer
from .collecting import Collected, Collector, Mode
from .logprobs import TokenScorer
from .models import context_length, frozen_copy, is_adapted
from .prompts import PromptCodec
from .ranks import Ranks
from .reference_model import Annotator, Reference, copy_adapter
from .sampler import PromptSampler
from .source import RolloutSource, Schedule


def sampling_options(args: Any) -> SamplingOptions:
    """How completions are drawn, as the configuration says."""
    return SamplingOptions(
        max_new_tokens=args.max_completion_length,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        generation_kwargs=args.generation_kwargs or {},
    )


def build_collector(args: Any, model: Any, tokenizer: Any, scorer: Scorer, ranks: Ranks) -> Collector:
    """The collector of a run. `model`: the policy, unwrapped."""
    context = context_length(model)
    return Collector(
        codec=PromptCodec(
            tokenizer,
            args.chat_template_kwargs or {},
            None if context is None else context - args.max_completion_length,
        ),
        generator=TransformersGenerator(model, tokenizer),
        scorer=scorer,
        sampling=sampling_options(args),
        ranks=ranks,
        aggregation=args.multi_objective_aggregation,
        scale=args.scale_rewards,
        mask_truncated=args.mask_truncated_completions,
        keep_texts=args.log_completions,
    )


def build_reference(args: Any, model: Any, prepare: Callable[[nn.Module], nn.Module]) -> Reference | None:
    """What beta holds the policy to: nothing, the policy less its adapter, or a frozen copy put through `prepare`."""
    if args.beta == 0:
        return None
    if is_adapted(model):
        return Reference(TokenScorer(model, temperature=args.temperature))
    frozen = frozen_copy(model)
    return Reference(TokenScorer(frozen, temperature=args.temperature), prepare(frozen))


def build_source(
    args: Any,
    dataset: Any,
    collector: Collector,
    annotator: Annotator,
    collected: Callable[[Collected, Mode], None],
    *,
    pad_token_id: int,
    device: Any,
) -> RolloutSource:
    """The source of a run's micro-batches."""
    schedule = Schedule(args.num_generations, args.steps_per_generation, args.num_iterations)
    multiple = args.pad_to_multiple_of
    return RolloutSource(
        dataset=dataset,
        sampler=PromptSampler(
            len(dataset), args.generation_batch_size // args.num_generations, args.seed, args.shuffle_dataset
        ),
        collector=collector,
        schedule=schedule,
        annotate=annotator,
        collected=collected,
        collate_options={
            "pad_token_id": pad_token_id,
            "device": device,
            "pad_to_multiple_of": multiple if isinstance(multiple, int) else None,
        },
    )


def needs_old_logprobs(args: Any) -> bool:
    """Whether a generation batch outlives an optimizer step, so that the policy moves while it is used."""
    return args.gradient_accumulation_steps % (args.steps_per_generation * args.num_iterations) != 0


def resumed_adapter(args: Any, model: Any, peft_config: Any) -> None:
    """Keep a copy of the adapter that a given PEFT model brings along, which beta then holds the policy to."""
    if args.beta and peft_config is None and is_adapted(model):
        copy_adapter(model)
