"""From what a user gives to a policy that can be trained, and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..scoring.spec import RewardSpec, reward_specs
from .datasets import check_datasets, only_prompts
from .models import add_adapter, check_model_path, drop_dropout, is_adapted, load_model, load_tokenizer
from .moving_reference import check_moving_reference
from .reference_model import copy_adapter
from .refusals import check_rewards
from .reward_models import prepare_models, with_models


def check_inputs(
    model: Any, reward_funcs: Any, processing_classes: Any, args: Any, train_dataset: Any, eval_dataset: Any
) -> tuple[list[RewardSpec], Any, Any]:
    """The rewards, and the datasets as rewards may see them. Raises UsageError on what cannot work, quickly."""
    check_model_path(model)
    check_rewards(reward_funcs)
    specs = reward_specs(with_models(reward_funcs, processing_classes, args), args.reward_weights)
    if args.remove_unused_columns:
        train_dataset, eval_dataset = only_prompts(train_dataset), only_prompts(eval_dataset)
    check_datasets(train_dataset, eval_dataset, specs)
    prepare_models(specs)
    return specs, train_dataset, eval_dataset


def prepare_policy(model: Any, tokenizer: Any, peft_config: Any, args: Any) -> tuple[Any, Any]:
    """The policy and its tokenizer. `model`: a path, id or object; `tokenizer`: None = the one beside the model.

    With beta, a PEFT model that is given with its adapter gets a frozen copy of it as the reference. `args`: the run's
    GRPOConfig. Raises UsageError on a model, tokenizer or adapter that cannot be used.
    """
    options = args.model_init_kwargs or {}
    policy = load_model(model, options, trust_remote_code=args.trust_remote_code)
    check_moving_reference(args, model, peft_config)
    tokenizer = load_tokenizer(
        tokenizer, policy, revision=options.get("revision"), trust_remote_code=args.trust_remote_code
    )
    if args.disable_dropout:
        drop_dropout(policy)
    check_moving_reference(args, policy, peft_config)
    if args.beta and peft_config is None and is_adapted(policy):
        copy_adapter(policy)
    return add_adapter(policy, peft_config), tokenizer


def default_output_dir(model: Any) -> str:
    """Where a run goes that names no folder: after the model."""
    name = model if isinstance(model, str) else getattr(getattr(model, "config", None), "_name_or_path", "")
    return f"{Path(name).name or 'model'}-GRPO"
