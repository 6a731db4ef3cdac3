"""What TRL's trainer cannot carry, said before a model is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError
from plaudit.scoring.schedules import Adaptive, as_schedule
from plaudit.scoring.spec import RewardSpec

HONOURED = ("max_unscored_share",)
"""Fields of this engine's configuration that TRL's lacks and that hold here as well."""


def check_engine(config: Any, asked: Mapping[str, Any], rewards: Sequence[RewardSpec]) -> None:
    """Raise UsageError on what TRL's trainer cannot do. TRL must be installed.

    config: the run's GRPOConfig. `asked`: the fields of it that the run file sets.
    """
    try:
        from trl import GRPOConfig as TRLConfig
    except ImportError as error:
        raise UsageError(f'engine = "trl" needs TRL: pip install "trl>=1.16" ({error})') from error
    theirs = {field.name for field in dataclasses.fields(TRLConfig)}
    defaults = {field.name: field.default for field in dataclasses.fields(type(config))}
    _refuse_task_limits(asked)
    for name, value in asked.items():
        if name not in theirs and name not in HONOURED and value != defaults.get(name):
            raise UsageError(f'config.{name} is a field of this engine alone; drop it, or engine = "trl"')
    if isinstance(config.vllm_server_base_url, (list, tuple)):
        raise UsageError('config.vllm_server_base_url: TRL generates with one server; name one, or drop engine = "trl"')
    for spec in rewards:
        _check_reward(spec, config)
    trl_config(config, asked, rewards)


def _refuse_task_limits(asked: Mapping[str, Any]) -> None:
    for task in asked.get("task_max_completion_length") or ():
        raise UsageError(
            f"task '{task}' has a max_completion_length of its own, which TRL's trainer cannot keep; set "
            'config.max_completion_length for all, or drop engine = "trl"'
        )


def _check_reward(spec: RewardSpec, config: Any) -> None:
    if isinstance(as_schedule(spec.weight), Adaptive):
        raise UsageError(
            f"reward '{spec.name}' has an adaptive weight, whose state TRL's checkpoints do not hold; use another "
            'schedule, or drop engine = "trl"'
        )
    rollouts = config.per_device_train_batch_size * config.steps_per_generation
    if spec.on_error == "drop_group" and rollouts % config.num_generations:
        raise UsageError(
            f"reward '{spec.name}': on_error = drop_group needs whole groups in each process: {rollouts} rollouts a "
            f"process are no multiple of num_generations = {config.num_generations}"
        )


def trl_config(config: Any, asked: Mapping[str, Any], rewards: Sequence[RewardSpec]) -> Any:
    """TRL's GRPOConfig for a run. Raises UsageError on values that TRL refuses.

    The two defaults in which this engine differs, bf16 and gradient checkpointing, stay as they are here.
    """
    from trl import GRPOConfig as TRLConfig

    known = {field.name for field in dataclasses.fields(TRLConfig)}
    given = {name: value for name, value in asked.items() if name in known}
    given |= {
        "bf16": config.bf16,
        "gradient_checkpointing": config.gradient_checkpointing,
        "scale_rewards": config.scale_rewards,
        # Columns are hidden from the rows themselves, which a dataset of TRL's would have to drop.
        "remove_unused_columns": False,
        "reward_weights": [float(as_schedule(spec.weight)(0)) for spec in rewards],
    }
    try:
        return TRLConfig(**given)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise UsageError(f'engine = "trl": TRL refuses the configuration: {" ".join(str(error).split())}') from error


def check_conversations(agents: Any, processing_class: Any, config: Any) -> None:
    """Raise UsageError where TRL's loop of tool calls cannot carry the tools or environments of a run."""
    from trl.chat_template_utils import is_chat_template_prefix_preserving, supports_tool_calling

    from .chats import processing_class_for_trl

    for tool in agents.tools:
        if tool.on_error != "answer":
            raise UsageError(
                f"tool '{tool.name}' has on_error = {tool.on_error}, but TRL does not say whose call it is; use "
                '"answer", make it a method of an environment, or drop engine = "trl"'
            )
    for kind in agents.environments:
        if kind.replies is not None:
            raise UsageError(
                f"{kind.label} answers turns itself (answer_turn), but TRL's loop ends with a turn that calls nothing; "
                'drop engine = "trl"'
            )
    chats = agents.chats(processing_class, config.chat_template_kwargs or {})
    adapted = processing_class_for_trl(processing_class, chats)
    if not supports_tool_calling(adapted):
        raise UsageError(
            'engine = "trl": the chat template shows no tool calls or no answers of tools, which TRL asks for also '
            'where an environment has no tools; set another template, or drop engine = "trl"'
        )
    if not is_chat_template_prefix_preserving(adapted):
        raise UsageError(
            'engine = "trl": the chat template renders a turn otherwise once something follows, which TRL refuses; set '
            'another template, or drop engine = "trl"'
        )
