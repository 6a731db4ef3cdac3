"""Everything about a run that can be checked before its model's weights are loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plaudit.errors import UsageError
from plaudit.run.configuring import config_values, make_config
from plaudit.run.data import LoadedData, Record, load_data
from plaudit.run.environments import check_agents, has_environments, plan_run_agents, with_agents
from plaudit.run.lengths import PromptLengths, check_context, measure_prompts, token_counts
from plaudit.run.mixing import mix_tasks, tempered_ratios
from plaudit.run.model_files import ModelFiles, find_model
from plaudit.run.peft_config import make_peft_config
from plaudit.run.rewards import check_columns, check_every_task, load_rewards
from plaudit.run.schema import DataSection, RunFile
from plaudit.run.streaming import StreamedData, open_stream
from plaudit.scoring.spec import RewardSpec, unique_names

DEFAULT_SEED = 42


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a step takes: `prompts` × `generations` rollouts in one generation batch; `steps` optimizer steps in all.

    `epochs`: how often each row is taken; None = nobody knows.
    """

    prompts: int
    generations: int
    steps: int
    epochs: float | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that passed the preflight. `dropped`: rows left out because their prompt was too long, by task.

    `agents`: its tools and environments, None = there are none. `stream`: what gives the training rows where they
    stream; `train` then holds the first of them.
    """

    run: RunFile
    config: Any
    rewards: Sequence[RewardSpec]
    model: ModelFiles
    train: Sequence[Record]
    heldout: Sequence[Record]
    lengths: PromptLengths
    sizes: Sizes
    task_rows: Mapping[str, int]
    agents: Any = None
    peft_config: Any = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    canary: Sequence[Record] = ()
    stream: Any = None

    @property
    def how_many(self) -> str:
        """The training rows in words."""
        return f"{len(self.train):,} rows" if self.stream is None else "a stream of rows"


def prepare_run(run: RunFile) -> Prepared:
    """Load rewards, data, configuration and tokenizer, and check each against the others. Raises PlauditError."""
    from plaudit.grpo.policy.seeing import prompt_codec

    rewards = load_rewards(run)
    agents = plan_run_agents(run)
    rewards = unique_names([*rewards, *(agents.reward_specs() if agents is not None else [])])
    seed = run.config.get("seed", DEFAULT_SEED)
    sections = _data_sections(run)
    loaded = _loaded(run, sections, seed)
    ratios = _ratios(run, {name: data.train for name, data in loaded.items()})
    check_columns(rewards, _mixed(run, {name: data.train for name, data in loaded.items()}, ratios))
    config = make_config(run)
    _check_engine(run, config, rewards)
    model = find_model(run.model)
    codec = prompt_codec(model.processing_class, config.chat_template_kwargs or {})
    kept = {name: _drop_long(data, sections.get(name), codec) for name, data in loaded.items()}
    train = _mixed(run, {name: data.train for name, data in kept.items()}, ratios)
    stream = getattr(kept.get(""), "stream", None)
    heldout = _mixed(run, {name: data.heldout for name, data in kept.items()}, None)
    if agents is not None:
        check_agents(run, agents, train, heldout, config, model.processing_class)
        _check_engine_agents(run, agents, model, config)
    return Prepared(
        run=run,
        config=config,
        rewards=rewards,
        model=model,
        train=train,
        heldout=heldout,
        lengths=_check_lengths(train, heldout, codec, model, config),
        sizes=_check_sizes(config, len(train), bool(heldout), streams=stream is not None),
        task_rows={name: sum(row.get("task") == name for row in train) for name in (task.name for task in run.tasks)},
        peft_config=make_peft_config(run.model.peft),
        agents=agents,
        canary=_canary_rows(run, rewards, seed),
        stream=stream,
        dropped={name: len(loaded[name].train) - len(kept[name].train) for name in kept} if stream is None else {},
    )


def _check_engine(run: RunFile, config: Any, rewards: Sequence[RewardSpec]) -> None:
    """Raise UsageError on what the engine of the run cannot do, where it is not this one."""
    if run.engine == "trl":
        from plaudit.bridges.trl_engine import check_engine

        check_engine(config, config_values(run), rewards)


def _check_engine_agents(run: RunFile, agents: Any, model: ModelFiles, config: Any) -> None:
    if run.engine == "trl":
        from plaudit.bridges.trl_engine import check_conversations

        check_conversations(agents, model.processing_class, config)


def _canary_rows(run: RunFile, rewards: Sequence[RewardSpec], seed: int) -> Sequence[Record]:
    """The rows of `[canary]`, which a reward must reach as well."""
    if run.canary is None:
        return ()
    rows = load_data(run.canary.data, where="canary.data", seed=seed).train
    check_every_task(rewards, rows)
    return rows


def _loaded(run: RunFile, sections: Mapping[str, tuple[DataSection, str]], seed: int) -> dict[str, LoadedData]:
    """The rows of each section, as tools and environments need them where there are any."""
    environments = has_environments(run)
    loaded = {
        name: open_stream(data, where=where)
        if data.streaming
        else load_data(data, where=where, seed=seed, may_lack_prompts=environments)
        for name, (data, where) in sections.items()
    }
    return with_agents(loaded, run) if environments or run.tools else loaded


def _data_sections(run: RunFile) -> dict[str, tuple[DataSection, str]]:
    if run.data is not None:
        return {"": (run.data, "data")}
    places = enumerate(run.tasks)
    return {task.name: (task.data, f"task.{index}.data") for index, task in places if task.data is not None}


def _ratios(run: RunFile, rows: Mapping[str, Sequence[Record]]) -> Mapping[str, float] | None:
    """The tasks' shares: given, by temperature, or None = as many as there are."""
    if run.task_temperature is not None:
        return tempered_ratios(rows, run.task_temperature)
    return {task.name: task.ratio for task in run.tasks if task.ratio is not None} or None


def _mixed(run: RunFile, rows: Mapping[str, Sequence[Record]], ratios: Mapping[str, float] | None) -> list[Record]:
    return mix_tasks(rows, ratios) if run.tasks else list(rows[""])


def _drop_long(data: LoadedData, section: tuple[DataSection, str] | None, codec: Any) -> LoadedData:
    """The rows whose prompt is within `max_prompt_tokens`; all of them when there is no such limit."""
    limit = section[0].max_prompt_tokens if section is not None else None
    if section is None or limit is None:
        return data
    if isinstance(data, StreamedData):
        return data.kept(
            lambda row: token_counts([row], codec)[0] <= limit, f"{section[1]}.max_prompt_tokens = {limit}"
        )
    parts = []
    for rows in (data.train, data.heldout):
        counts = token_counts(rows, codec)
        parts.append([row for row, count in zip(rows, counts, strict=True) if count <= limit])
    if not parts[0]:
        shortest = min(token_counts(data.train, codec))
        raise UsageError(
            f"{section[1]}.max_prompt_tokens = {limit} drops every row; the shortest prompt has {shortest}"
        )
    return LoadedData(*parts)


def _check_lengths(
    train: Sequence[Record], heldout: Sequence[Record], codec: Any, model: ModelFiles, config: Any
) -> PromptLengths:
    """Both parts must fit the context; the lengths are those of the training rows."""
    lengths = measure_prompts(train, codec)
    limits = {"context_tokens": model.context_tokens, "max_completion_length": config.max_completion_length}
    check_context(lengths, **limits)
    if heldout:
        check_context(measure_prompts(heldout, codec), **limits, what="held-out prompts")
    return lengths


def _check_sizes(config: Any, rows: int, has_heldout: bool, *, streams: bool) -> Sizes:
    """Raise UsageError when the rows cannot fill one generation batch, or evaluation is asked for without rows."""
    prompts = config.generation_batch_size // config.num_generations
    if rows < prompts:
        raise UsageError(
            f"{rows} rows cannot fill one generation batch of {prompts} prompts: add rows, or lower "
            "config.per_device_train_batch_size"
        )
    if str(getattr(config.eval_strategy, "value", config.eval_strategy)) != "no" and not has_heldout:
        raise UsageError(
            "config.eval_strategy needs held-out rows: set data.eval_split, data.eval_path or data.eval_size"
        )
    if streams:
        if config.max_steps <= 0:
            raise UsageError("data.streaming: nobody knows how many steps an epoch has; set config.max_steps")
        return Sizes(prompts, config.num_generations, config.max_steps, None)
    micro_batches = config.steps_per_generation * config.num_iterations
    per_epoch = (rows // prompts) * micro_batches / config.gradient_accumulation_steps
    steps = config.max_steps if config.max_steps > 0 else max(1, int(config.num_train_epochs * per_epoch))
    return Sizes(prompts, config.num_generations, steps, steps / per_epoch)


def is_main_process() -> bool:
    """Whether this process prints and writes files: rank 0 of a torchrun launch, or the only one."""
    return int(os.environ.get("RANK", "0")) == 0
