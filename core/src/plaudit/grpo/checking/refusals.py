"""What the trainer refuses once it knows how it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import UsageError
from ..generating.sharding import decodes_in_step
from ..rows.datasets import column_of
from ..rows.streams import streams
from ..rows.tasks import TASK_COLUMN


def refuse_parallelism(trainer: Any) -> None:
    """Raise UsageError on a way of spreading the model over devices that rollouts cannot be generated with."""
    args, plugin = trainer.args, getattr(trainer.accelerator.state, "fsdp_plugin", None)
    if plugin is not None and plugin.fsdp_version != 2:
        raise UsageError("FSDP version 1 cannot be generated with; set version to 2 in fsdp_config")
    if args.n_gpu > 1:
        raise UsageError(
            f"one process sees {args.n_gpu} GPUs, and DataParallel cannot be generated with; launch one process a GPU "
            "with torchrun or accelerate, or show this one a single GPU (CUDA_VISIBLE_DEVICES=0)"
        )


def refuse_conversations_in_step(args: Any, accelerator: Any, agents: Any) -> None:
    """Raise UsageError where ranks decode in step, but converse over different numbers of turns."""
    if decodes_in_step(args, accelerator) and (agents.converse or agents.rollout_func is not None):
        raise UsageError(
            "ds3_gather_for_generation=False makes all ranks decode together, which tools, environments and "
            "rollout_func cannot; leave it on, or generate with vLLM"
        )
    if decodes_in_step(args, accelerator) and args.use_transformers_continuous_batching:
        raise UsageError(
            "ds3_gather_for_generation=False makes all ranks decode together, which continuous batching cannot; leave "
            "one of them out"
        )


def check_groups(args: Any, scorer: Any) -> None:
    """Raise UsageError when a reward wants whole groups but groups span two ranks."""
    rollouts = args.per_device_train_batch_size * args.steps_per_generation
    wanting = [runtime.name for runtime in scorer.runtimes if runtime.policy.granularity == "group"]
    if wanting and rollouts % args.num_generations:
        raise UsageError(
            f"reward {wanting[0]!r} scores whole groups of num_generations ({args.num_generations}), but a rank writes "
            f"{rollouts} rollouts (per_device_train_batch_size x steps_per_generation); make that a multiple"
        )


def check_task_limits(args: Any, agents: Any, train: Any, evaluation: Any) -> None:
    """Raise UsageError when a task's max_completion_length would be ignored. Streams are not read for it."""
    limits = args.task_max_completion_length
    if limits is None:
        return
    if agents.rollout_func is not None:
        raise UsageError(
            "rollout_func writes whole rollouts, so task_max_completion_length is its matter; leave it out"
        )
    datasets = [train, *(evaluation.values() if isinstance(evaluation, Mapping) else [evaluation])]
    read = [dataset for dataset in datasets if dataset is not None]
    if any(streams(dataset) for dataset in read):
        return
    tasks = {task for dataset in read for task in column_of(dataset, TASK_COLUMN)}
    for name in limits:
        if name not in tasks:
            raise UsageError(
                f"task_max_completion_length names the task {name!r}, which no row has in its column {TASK_COLUMN!r} "
                f"(there: {', '.join(sorted(map(repr, tasks - {None}))) or 'no task'})"
            )


def check_rewards(reward_funcs: Any) -> None:
    """Raise UsageError when there is no reward."""
    if reward_funcs is None or (isinstance(reward_funcs, (list, tuple)) and not reward_funcs):
        raise UsageError("reward_funcs is missing; give a reward's name, a function, or a list of them")
