"""Models in `reward_funcs`: objects, folders and hub ids become rewards of their own."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ...errors import PlauditError, UsageError
from ...plugins.loading import REWARD_KINDS, load_reward
from ...plugins.reference import Reference
from ...plugins.resolve import find, is_direct
from ...scoring.classifier import ClassifierReward, load_classifier
from ...scoring.spec import RewardSpec

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
# Of model_init_kwargs, what speaks of the policy's own files.
_OF_THE_POLICY = ("revision", "subfolder", "gguf_file", "quantization_config")


def with_models(reward_funcs: Any, processing_classes: Any, args: Any) -> list[Any]:
    """The rewards as a list, every model in it as a reward that loads when it is prepared or first called.

    A name is first that of a plugin, file or module, then a folder with a model, then a hub id (`owner/name`).
    `processing_classes`: TRL's `reward_processing_classes`, one tokenizer or a list with one (or None) a reward.
    Raises UsageError when their number differs.
    """
    rewards = list(reward_funcs) if isinstance(reward_funcs, (list, tuple)) else [reward_funcs]
    tokenizers = processing_classes if isinstance(processing_classes, (list, tuple)) else [processing_classes]
    if processing_classes is None:
        tokenizers = [None] * len(rewards)
    if len(tokenizers) != len(rewards):
        raise UsageError(
            f"{len(tokenizers)} reward_processing_classes for {len(rewards)} rewards; give one each, None for functions"
        )
    return [_one(reward, tokenizer, args) for reward, tokenizer in zip(rewards, tokenizers, strict=True)]


def prepare_models(specs: Sequence[RewardSpec], device: Any = None) -> None:
    """Load the models among the rewards; put them on `device` unless they were spread over several."""
    for spec in specs:
        target = spec.reward.component.target
        if type(target) is not ClassifierReward:
            continue
        model = target.prepare()
        if device is not None and not getattr(model, "hf_device_map", None):
            model.to(device)


def _one(reward: Any, tokenizer: Any, args: Any) -> Any:
    if isinstance(reward, nn.Module):
        name = Path(_source(reward)).name or type(reward).__name__
        return _spec(lambda: (reward, tokenizer or _tokenizer_beside(reward, args)), name, args)
    if isinstance(reward, str) and names_model(reward):
        options = {name: value for name, value in (args.model_init_kwargs or {}).items() if name not in _OF_THE_POLICY}
        options.setdefault("trust_remote_code", args.trust_remote_code)
        return _spec(lambda: load_classifier(reward, tokenizer=tokenizer, **options), Path(reward).name, args)
    if tokenizer is not None:
        warnings.warn(
            f"reward_processing_classes has a {type(tokenizer).__name__} for {reward!r}, which is no model; it is not "
            "used",
            stacklevel=5,
        )
    return reward


def names_model(text: str) -> bool:
    """Whether a reward's name means a model: no plugin, file or module has it, and it is a folder or a hub id."""
    try:
        reference = Reference.parse(text)
    except UsageError:
        reference = None
    if reference is not None and (is_direct(reference) or find(reference, REWARD_KINDS) is not None):
        return False
    folder = Path(text).expanduser()
    if folder.is_dir():
        return (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file()
    return bool(_HUB_ID.fullmatch(text))


def _spec(load: Any, name: str, args: Any) -> RewardSpec:
    made = ClassifierReward(
        load,
        name=f"reward {name!r}",
        batch_size=args.per_device_train_batch_size,
        chat_template_kwargs=args.chat_template_kwargs,
    )
    return RewardSpec(load_reward(made, name=name), name)


def _source(model: Any) -> str:
    return str(getattr(getattr(model, "config", None), "_name_or_path", "") or "")


def _tokenizer_beside(model: Any, args: Any) -> Any:
    from transformers import AutoTokenizer

    source = _source(model)
    try:
        if not source:
            raise PlauditError("it was not loaded from a folder or hub id")
        return AutoTokenizer.from_pretrained(source, trust_remote_code=args.trust_remote_code)
    except (OSError, ValueError, PlauditError) as error:
        raise UsageError(
            f"no tokenizer beside the reward model {source or type(model).__name__!r}; pass "
            f"reward_processing_classes ({str(error).splitlines()[0]})"
        ) from error
