"""Generating and scoring with a model outside a trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...rollout.protocol import SamplingOptions
from ...rollout.transformers_generator import TransformersGenerator
from ...scoring.scorer import Scorer
from ...scoring.spec import RewardSpec
from ...types import Text
from ..collecting import Collector
from ..policy.models import context_length
from ..rows.prompts import PromptCodec, as_row
from ..writing import Assignment, SingleTurnWriter
from .preview import ALONE, preview

AT_ONCE = 64


def writer_of(model: Any, tokenizer: Any, sampling: SamplingOptions, template: Mapping[str, Any]) -> SingleTurnWriter:
    """Completions by the model in this process. template: arguments of the chat template."""
    context = context_length(model)
    room = None if context is None else context - sampling.max_new_tokens
    return SingleTurnWriter(PromptCodec(tokenizer, template, room), TransformersGenerator(model, tokenizer))


def scored_completions(
    model: Any,
    tokenizer: Any,
    rewards: Sequence[RewardSpec],
    rows: Sequence[Mapping[str, Any]],
    sampling: SamplingOptions,
    *,
    num_generations: int = 1,
    template: Mapping[str, Any] | None = None,
    at_once: int = AT_ONCE,
    trainer_state: Any = None,
) -> list[dict[str, Any]]:
    """One record a completion, `num_generations` for each row in order: see `preview`."""
    with Scorer(rewards, max_unscored_share=None) as scorer:
        writer = writer_of(model, tokenizer, sampling, template or {})
        collector = Collector(writer=writer, scorer=scorer, sampling=sampling, ranks=ALONE)
        return preview(collector, rows, num_generations, None, at_once, trainer_state)


def completions(
    model: Any, tokenizer: Any, prompts: Sequence[Text], sampling: SamplingOptions, *, num_generations: int = 1
) -> list[list[Text]]:
    """`num_generations` completions of each prompt: a string of a string, messages of messages."""
    rows = [as_row({"prompt": prompt}) for prompt in prompts for _ in range(num_generations)]
    written = writer_of(model, tokenizer, sampling, {}).write(Assignment(rows, sampling), lambda rollout: None)
    texts = [rollout.completion for rollout in written]
    return [texts[start : start + num_generations] for start in range(0, len(texts), num_generations)]
