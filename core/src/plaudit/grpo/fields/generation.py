"""Fields about data and sampling."""

# ruff: noqa: RUF009  (option() only wraps dataclasses.field, which the rule does not see)
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .option import option


@dataclass
class GenerationFields:
    """How many completions of which length are drawn, and from which distribution."""

    remove_unused_columns: bool | None = option(
        False, "Drop all dataset columns but `prompt`. Rewards read the other columns, so leave it off."
    )
    num_generations: int | None = option(
        8, "Completions for each prompt (G), at least 2. It must divide the generation batch."
    )
    num_generations_eval: int | None = option(None, "Completions for each prompt in evaluation; None = the same.")
    max_completion_length: int | None = option(512, "Most tokens of a completion.")
    task_max_completion_length: dict[str, Any] | str | None = option(
        None,
        "Most tokens of a completion of one task, as a dict or JSON from the value of the column `task` to tokens, at "
        "most max_completion_length each; other rows have that. A run file says it in [[task]].",
    )
    ds3_gather_for_generation: bool = option(
        True, "With ZeRO-3 or FSDP2, gather the weights for generation (fast, but they must fit on one device)."
    )
    shuffle_dataset: bool | None = option(True, "Draw the prompts in a new random order each epoch.")
    pad_to_multiple_of: int | str | None = option(
        "auto", "Pad lengths to a multiple of this; auto = 128 on Neuron devices, no rounding elsewhere; None = never."
    )
    generation_batch_size: int | None = option(
        None,
        "Completions drawn at once, on all ranks together: per_device_train_batch_size x ranks x steps_per_generation. "
        "Set this or steps_per_generation, not both.",
    )
    steps_per_generation: int | None = option(
        None, "Micro-batches that one generation batch is split into; None = gradient_accumulation_steps."
    )
    reward_lookahead: int = option(
        0,
        "1 = write the next generation batch while the last rewards of this one are computed: slow rewards cost no "
        "time, completions are one generation older than the policy, and importance ratios account for it.",
    )
    dynamic_sampling: bool = option(
        False,
        "Replace groups in which no reward differs by fresh prompts (DAPO), so that every group teaches. Prompts are "
        "used up faster, and replaced completions cost their time.",
    )
    dynamic_sampling_max_rounds: int = option(
        3, "Most rounds of fresh prompts for one generation batch; groups that still teach nothing then stay."
    )
    row_sampling: str = option(
        "shuffle",
        "Which rows come next. shuffle: each once an epoch. spread: more of those whose completions scored "
        "differently. progress: more of the tasks whose rewards are changing.",
    )
    row_sampling_uniform: float = option(
        0.2, "Under row_sampling spread or progress, the share of rows that are drawn evenly all the same."
    )
    curriculum_column: str | None = option(
        None, "A column of numbers, the difficulty: training begins with the easiest rows. None = all rows at once."
    )
    curriculum_start: float = option(0.2, "Share of the rows, the easiest, that a curriculum begins with.")
    curriculum_steps: int = option(100, "Optimizer steps until all rows of a curriculum take part.")
    max_staleness: int = option(
        0,
        "Optimizer steps by which the policy that writes may lag behind the one that learns. Above 0, vLLM servers "
        "write the next generation batches while this one is learnt from; 0 = write, then learn.",
    )
    temperature: float = option(1.0, "Temperature of sampling; log-probs and entropies are those at this temperature.")
    top_p: float = option(1.0, "Sample among the likeliest tokens of this total probability; 1.0 = all.")
    top_k: int = option(0, "Sample among this many likeliest tokens; 0 = all.")
    min_p: float | None = option(
        None, "Sample among tokens at least this share as likely as the likeliest, between 0 and 1; None = all."
    )
    generation_kwargs: dict[str, Any] | str | None = option(
        None,
        "More sampling options by the names of generate(), as a dict or JSON; they win over the fields above. "
        "structured_outputs holds completions to one of {'regex': ...}, {'json': a schema}, {'choice': [...]}.",
    )
    chat_template_kwargs: dict[str, Any] | str | None = option(
        None, "Arguments for the chat template, as a dict or JSON, such as {'enable_thinking': false}."
    )
    repetition_penalty: float = option(
        1.0, "Above 1 makes tokens that occurred before less likely, below 1 more likely."
    )
    max_cache_tokens: int | None = option(
        None,
        "Tokens of prompts and completions that the built-in generator's key-value cache may come to hold at a time; "
        "further rows wait. None = what half of the free memory holds.",
    )
    cache_implementation: str | None = option(
        None, "Key-value cache that transformers generates with: dynamic, static or quantized; None = the fastest."
    )
    compile_decoding: bool = option(
        False,
        "Compile the step of the built-in generator, on a static cache. The first batch waits for the compiler, "
        "which may take minutes.",
    )
    use_transformers_continuous_batching: bool = option(False, "Generate with transformers' continuous batching.")
    transformers_continuous_batching_config: dict[str, Any] | str | None = option(
        None, "Settings of continuous batching, as a dict or JSON; max_memory_percent is 0.5 unless set."
    )
    use_transformers_paged: bool = option(False, "Old name of use_transformers_continuous_batching.")
    max_tool_calling_iterations: int | None = option(
        None, "Most turns with tool calls in a rollout; None = as many as fit into the completion."
    )
