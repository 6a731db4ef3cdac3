"""From what a user gives to a policy that can be trained, and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..scoring.spec import RewardSpec, reward_specs, unique_names
from .checking.refusals import check_rewards, check_task_limits
from .forward.kernels import prepare_liger
from .forward.precise_head import cast_head
from .generating.agents import Agents
from .policy.models import (
    add_adapter,
    check_model_path,
    drop_dropout,
    is_adapted,
    load_model,
    load_tokenizer,
    refuse_learnt_prompts,
)
from .policy.moving_reference import check_moving_reference
from .policy.quantization import check_optimizer, check_trainable, is_quantized, model_options, prepare_quantized
from .policy.reference_model import copy_adapter
from .policy.reward_models import prepare_models, with_models
from .policy.seeing import check_seeing
from .rows.chosen_rows import check_choice
from .rows.datasets import check_datasets, only_prompts


def check_inputs(
    model: Any,
    reward_funcs: Any,
    processing_classes: Any,
    args: Any,
    train_dataset: Any,
    eval_dataset: Any,
    agents: Agents,
) -> tuple[list[RewardSpec], Any, Any]:
    """The rewards, and the datasets as rewards may see them. Raises UsageError on what cannot work, quickly."""
    check_model_path(model)
    own = agents.own_rewards(reward_funcs)
    if reward_funcs is None and own:
        reward_funcs = []
    else:
        check_rewards(reward_funcs)
    specs = reward_specs(with_models(reward_funcs, processing_classes, args), args.reward_weights)
    specs = unique_names([*specs, *own])
    train_dataset, eval_dataset = agents.datasets(train_dataset, eval_dataset, args)
    if args.remove_unused_columns:
        train_dataset, eval_dataset = only_prompts(train_dataset), only_prompts(eval_dataset)
    # Rows hold texts, which accelerate cannot send from the rank that reads a stream: each reads its own share.
    args.accelerator_config.dispatch_batches = False
    check_datasets(train_dataset, eval_dataset, agents.checkable(specs), max_steps=args.max_steps)
    check_choice(args, train_dataset)
    check_task_limits(args, agents, train_dataset, eval_dataset)
    prepare_models(specs)
    return specs, train_dataset, eval_dataset


def prepare_policy(
    model: Any, tokenizer: Any, peft_config: Any, quantization_config: Any, args: Any
) -> tuple[Any, Any]:
    """The policy and its tokenizer, or processor. `model`: a path, id or object; `tokenizer`: None = that beside it.

    With beta, a PEFT model that is given with its adapter gets a frozen copy of it as the reference. `args`: the run's
    GRPOConfig. Raises UsageError on a model, tokenizer or adapter that cannot be used.
    """
    check_moving_reference(args, model, peft_config)
    refuse_learnt_prompts(model, peft_config)
    check_seeing(args, tokenizer)
    check_optimizer(args)
    prepare_liger(args)
    options = model_options(args, model, quantization_config)
    policy = load_model(model, options, trust_remote_code=args.trust_remote_code, distributed=args.world_size > 1)
    tokenizer = load_tokenizer(
        tokenizer, policy, revision=options.get("revision"), trust_remote_code=args.trust_remote_code
    )
    check_seeing(args, tokenizer)
    check_moving_reference(args, policy, peft_config)
    check_trainable(policy, peft_config)
    if args.disable_dropout:
        drop_dropout(policy)
    if args.beta and peft_config is None and is_adapted(policy):
        copy_adapter(policy)
    policy = _with_adapter(policy, peft_config, args)
    if args.cast_lm_head_to_fp32:
        cast_head(policy)
    return policy, tokenizer


def _with_adapter(policy: Any, peft_config: Any, args: Any) -> Any:
    stage_3 = getattr(args.deepspeed_plugin, "zero_stage", 0) == 3
    # ZeRO-3 gathers weights of one dtype, and PEFT makes adapters float32 around a model in half precision.
    policy = add_adapter(policy, peft_config, autocast=not stage_3 or is_quantized(policy))
    prepare_quantized(policy)
    if is_adapted(policy) and args.gradient_checkpointing:
        # The embeddings are frozen, and a checkpointed block whose inputs need no gradient gives none.
        policy.enable_input_require_grads()
        if stage_3:
            args.gradient_checkpointing_kwargs = {**(args.gradient_checkpointing_kwargs or {}), "use_reentrant": True}
    return policy


def default_output_dir(model: Any) -> str:
    """Where a run goes that names no folder: after the model."""
    name = model if isinstance(model, str) else getattr(getattr(model, "config", None), "_name_or_path", "")
    return f"{Path(name).name or 'model'}-GRPO"
