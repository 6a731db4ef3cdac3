"""Puts the parts of a run together: who writes, who scores, who remembers. `args` is always the run's GRPOConfig."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from ..rollout.options import ExtraOptions
from ..rollout.protocol import Generator, SamplingOptions
from ..rollout.stopping import end_tokens
from ..rollout.structured import StructuredOutput
from ..rollout.vllm.sampling import vllm_sampling
from ..scoring.scorer import Scorer
from .collected import Collected
from .collecting import Collector
from .forward.ordering import Arrange, as_drawn
from .forward.packable import packing_allowed
from .generating.agent_writer import agent_writer
from .generating.agents import Agents
from .generating.colocating import build_colocated_generator
from .generating.dynamic_sampling import DynamicSampling
from .generating.local_generation import build_transformers_generator, check_transformers_sampling
from .generating.rollout_function import FunctionWriter
from .generating.serving import build_overlap, build_server_generator, generates_by_server
from .generating.sharding import decodes_in_step, gathers, prepare_frozen, steps_together, whole_weights
from .logprobs import TokenScorer
from .policy.models import context_length, frozen_copy, is_adapted
from .policy.reference_model import Annotator, Reference
from .policy.seeing import is_processor, prompt_codec, tokenizer_of, without_image_tokens
from .ranks import Ranks
from .rows.chosen_rows import build_chosen_rows, chooses
from .rows.prompts import PromptCodec
from .rows.streams import StreamedRows, shuffled, streams
from .sampler import IndexedRows, PromptSampler, Rows
from .schedule import Schedule
from .source import RolloutSource
from .writing import Mode, SingleTurnWriter, Writer


def sampling_options(args: Any) -> SamplingOptions:
    """How completions are drawn, as the configuration says. Raises UsageError on an option that is not supported."""
    sampling = SamplingOptions(
        max_new_tokens=args.max_completion_length,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        structured=StructuredOutput(regex=regex) if (regex := args.vllm_structured_outputs_regex) else None,
        generation_kwargs=args.generation_kwargs or {},
    )
    if args.use_vllm:
        vllm_sampling(sampling, ())
    else:
        check_transformers_sampling(args, sampling)
    return sampling


def build_collector(args: Any, model: Any, tokenizer: Any, scorer: Scorer, ranks: Ranks, agents: Agents) -> Collector:
    """The collector of a run. `model`: the policy, unwrapped."""
    return Collector(
        writer=build_writer(args, model, tokenizer, scorer, ranks, agents),
        scorer=scorer,
        sampling=without_image_tokens(sampling_options(args), model)
        if is_processor(tokenizer)
        else sampling_options(args),
        ranks=ranks,
        aggregation=args.multi_objective_aggregation,
        scale=args.scale_rewards,
        mask_truncated=args.mask_truncated_completions,
        keep_texts=args.log_completions,
        keep_images=args.log_completions and args.log_multimodal and is_processor(tokenizer),
        within_tasks=args.scale_within_task,
        writing=partial(whole_weights, model, ranks) if gathers(args, ranks.accelerator) else nullcontext,
    )


def build_writer(args: Any, model: Any, tokenizer: Any, scorer: Scorer, ranks: Ranks, agents: Agents) -> Writer:
    """Who turns rows into rollouts."""
    codec = build_codec(args, model, tokenizer)
    tokenizer = codec.tokenizer
    generator = build_generator(args, model, codec.processing_class, ranks)
    if agents.converse:
        return agent_writer(args, model, codec, generator, scorer, ranks, agents)
    if agents.rollout_func is not None:
        ends = end_tokens(model, tokenizer, ExtraOptions()) | {tokenizer.pad_token_id}
        return FunctionWriter(codec, generator, agents.rollout_func, agents.trainer, frozenset(ends))
    return SingleTurnWriter(codec, generator, args.task_max_completion_length)


def build_codec(args: Any, model: Any, tokenizer: Any) -> PromptCodec:
    """The tokenizer or processor with the choices of a run, and the room that the context leaves for a prompt."""
    limits = [context_length(model), args.vllm_max_model_length if args.use_vllm else None]
    known = [limit for limit in limits if limit is not None]
    room = min(known) - args.max_completion_length if known else None
    return prompt_codec(tokenizer, args.chat_template_kwargs or {}, room)


def build_generator(args: Any, model: Any, processing_class: Any, ranks: Ranks) -> Generator:
    """Who writes completions, as the configuration says. `model`: the policy, unwrapped."""
    tokenizer = tokenizer_of(processing_class)
    if generates_by_server(args):
        return build_server_generator(args, model, tokenizer, ranks)
    if args.use_vllm:
        return build_colocated_generator(args, model, processing_class, sampling_options(args))
    in_step = steps_together(ranks) if decodes_in_step(args, ranks.accelerator) else None
    return build_transformers_generator(args, model, tokenizer, in_step)


def build_token_scorer(args: Any, model: Any, *, balanced: bool) -> TokenScorer:
    """What computes the policy's log-probs. `balanced`: and the load-balancing loss of experts."""
    return TokenScorer(model, temperature=args.temperature, packing=packing_allowed(args), balanced=balanced)


def build_reference(args: Any, model: Any, accelerator: Any) -> Reference | None:
    """What beta holds the policy to: nothing, the policy less its adapter, or a frozen copy of it."""
    if args.beta == 0:
        return None
    if is_adapted(model):
        return Reference(TokenScorer(model, temperature=args.temperature))
    frozen = frozen_copy(model)
    scorer = TokenScorer(frozen, temperature=args.temperature)
    return Reference(scorer, prepare_frozen(accelerator, frozen))


def build_source(
    args: Any,
    dataset: Any,
    collector: Collector,
    annotator: Annotator,
    collected: Callable[[Collected, Mode], None],
    *,
    balanced: bool = False,
    arrange: Arrange = as_drawn,
) -> RolloutSource:
    """The source of a run's micro-batches. `balanced`: as the load-balancing loss of experts needs them."""
    rows = build_rows(args, dataset)
    dynamic = None
    if args.dynamic_sampling:
        dynamic = DynamicSampling(rows, args.num_generations, args.dynamic_sampling_max_rounds)
    return RolloutSource(
        rows=rows,
        collector=collector,
        schedule=Schedule(args.num_generations, args.steps_per_generation, args.num_iterations),
        annotate=annotator,
        collected=collected,
        collate_options={
            "pad_token_id": collector.writer.codec.tokenizer.pad_token_id,
            "device": args.device,
            "pad_to_multiple_of": args.pad_to_multiple_of,
            "attention_mask": balanced,
            "whole": balanced,
        },
        lookahead=args.reward_lookahead == 1,
        accumulation=args.gradient_accumulation_steps,
        overlap=build_overlap(args, collector.writer),
        keep_logprobs=annotator.takes_sampled,
        arrange=arrange,
        dynamic=dynamic,
    )


def build_rows(args: Any, dataset: Any) -> Rows:
    """The order of the training rows."""
    prompts = args.generation_batch_size // args.num_generations
    if chooses(args):
        return build_chosen_rows(args, dataset, prompts)
    if streams(dataset):
        return StreamedRows(shuffled(dataset, args.seed) if args.shuffle_dataset else dataset, prompts)
    return IndexedRows(dataset, PromptSampler(len(dataset), prompts, args.seed, args.shuffle_dataset))
