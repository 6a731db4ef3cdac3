"""What a run file can say: one frozen dataclass a section. Paths are relative to the current directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from plaudit.plugins.declare import Executor, Granularity, OnError

OnToolError = Literal["answer", "abort", "raise"]


@dataclass(frozen=True, slots=True)
class ModelSection:
    """`[model]`. `path`: a model that a plugin offers by name, else a folder, else a hub id.

    `peft` holds fields of peft.LoraConfig; an empty table is LoRA with its defaults.
    """

    path: str
    revision: str | None = None
    model_init_kwargs: Mapping[str, Any] = field(default_factory=dict)
    peft: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Shot:
    """One solved question shown before each prompt: `few_shot = [{prompt = "2+2?", answer = "4"}]`."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class DataSection:
    """`[data]`: where the rows come from and how they become prompts.

    `path`: a json, jsonl, parquet or csv file, or a folder saved by `datasets`. `name`: a dataset that a plugin offers
    (with `options`), else a hub id (with `config` and `revision`). `columns` maps our names to theirs.
    Held-out rows: `eval_path` or `eval_split`, cut to `eval_size`; `eval_size` alone takes that many rows away
    from the training rows. `streaming`: rows are read as training gets to them, see `run.streaming`.
    """

    path: str | None = None
    name: str | None = None
    streaming: bool = False
    config: str | None = None
    revision: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    split: str = "train"
    columns: Mapping[str, str] = field(default_factory=dict)
    system_prompt: str | None = None
    few_shot: tuple[Shot, ...] = ()
    answer_pattern: str | None = None
    max_rows: int | None = None
    max_prompt_tokens: int | None = None
    eval_path: str | None = None
    eval_split: str | None = None
    eval_size: int | None = None


@dataclass(frozen=True, slots=True)
class RewardSection:
    """`[[reward]]`: a reward or verifier by name, and how it is called. None means "as its author declared".

    The fields but `options` are those of `plaudit.scoring.spec.RewardSpec`, which says what each means.
    """

    name: str
    weight: float | Mapping[str, Any] = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    reference_column: str | None = None
    when: Mapping[str, Any] = field(default_factory=dict)
    after: str | Mapping[str, float] | None = None
    clip: tuple[float, float] | None = None
    scale: float | None = None
    granularity: Granularity | None = None
    executor: Executor | None = None
    timeout_s: float | None = None
    retries: int | None = None
    backoff_s: float | None = None
    on_error: OnError | None = None
    max_concurrency: int | None = None
    requests_per_s: float | None = None
    deterministic: bool | None = None
    cache: bool | None = None
    memory_mb: int | None = None
    breaker_failures: int | None = None
    breaker_cooldown_s: float | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentSection:
    """`[[environment]]`, or `[task.environment]` for the rows of one task: an environment by name, with its options.

    `route`: the value of the rows' column `environment` that leads here, by default its name; one environment by itself
    serves every row. `tools`: its methods that the model may call, by default all that its author offers. The other
    fields are those of `plaudit.rollout.agent.EnvironmentSpec`, which says what each means; None = its default.
    """

    name: str
    route: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[str, ...] | None = None
    timeout_s: float | None = None
    reset_timeout_s: float | None = None
    retries: int | None = None
    tool_retries: int | None = None
    backoff_s: float | None = None
    on_error: OnToolError | None = None


@dataclass(frozen=True, slots=True)
class TaskSection:
    """`[[task]]`: rows with rewards of their own. `ratio` is its share of the rows, relative to the other tasks.

    `data` may be missing where its environment makes the tasks up; it then needs a `ratio` among other tasks.
    `max_completion_length`: most tokens of its completions, where that is less than the configuration's.
    """

    name: str
    data: DataSection | None = None
    environment: EnvironmentSection | None = None
    rewards: tuple[RewardSection, ...] = field(default=(), metadata={"key": "reward"})
    ratio: float | None = None
    max_completion_length: int | None = None


@dataclass(frozen=True, slots=True)
class CanarySection:
    """`[canary]`: rows that nothing can answer, judged by the run's rewards every `every` optimizer steps.

    Their mean reward belongs at `floor`; more means that a reward is being gamed.
    """

    data: DataSection
    every: int = 50
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class SamplesSection:
    """`[samples]`: completions of the first `rows` held-out rows (or training rows) every `every` optimizer steps."""

    every: int
    rows: int = 4


@dataclass(frozen=True, slots=True)
class SandboxSection:
    """`[sandbox]`: where programs run for the rewards and environments that name no backend. `options`: its own."""

    backend: str = "local"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageSection:
    """`[[stage]]`: a part of the run that begins with the model of the part before, in a folder of its own.

    `rewards`: names of the run's rewards that count in it, all by default; `[[stage.reward]]` gives it others instead.
    `config`: GRPOConfig fields that differ. `data`: instead of the run's.
    """

    name: str
    rewards: tuple[str, ...] = ()
    own_rewards: tuple[RewardSection, ...] = field(default=(), metadata={"key": "reward"})
    data: DataSection | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvalSection:
    """`[eval]`: how the held-out rows are judged before and after training. Temperature 0 is greedy decoding."""

    before: bool = True
    after: bool = True
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class RunFile:
    """A whole run. `config` holds GRPOConfig fields; `rewards` beside `[[task]]` apply to every task.

    `tools`: functions that the model may call in every rollout, `package.module:function` or `./file.py:function`.
    `engine`: who trains, this engine or TRL's trainer. `task_temperature`: tasks without ratios come in shares of their
    size to the power 1/T: 1 as they are, more evens them out.
    """

    output_dir: str
    model: ModelSection
    engine: Literal["plaudit", "trl"] = "plaudit"
    data: DataSection | None = None
    rewards: tuple[RewardSection, ...] = field(default=(), metadata={"key": "reward"})
    environments: tuple[EnvironmentSection, ...] = field(default=(), metadata={"key": "environment"})
    tools: tuple[str, ...] = ()
    tasks: tuple[TaskSection, ...] = field(default=(), metadata={"key": "task"})
    task_temperature: float | None = None
    stages: tuple[StageSection, ...] = field(default=(), metadata={"key": "stage"})
    eval: EvalSection = field(default_factory=EvalSection)
    canary: CanarySection | None = None
    samples: SamplesSection | None = None
    sandbox: SandboxSection | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
