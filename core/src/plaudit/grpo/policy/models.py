"""Loading the policy, its tokenizer and its reference, with errors before anything expensive happens."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import UsageError


def load_model(
    model: str | nn.Module,
    options: Mapping[str, Any] | None,
    *,
    trust_remote_code: bool = False,
    distributed: bool = False,
) -> nn.Module:
    """The policy: a model object as it is, or the language model at a path or hub id, in float32 unless told.

    `options`: for from_pretrained. `distributed`: several processes hold a copy each, so none is spread over devices.
    Raises UsageError when there is no model there, or it cannot be loaded so.
    """
    if not isinstance(model, str):
        if options:
            raise UsageError(
                "model_init_kwargs only applies to a model given as a path or id, but model is an object; drop it"
            )
        return model
    check_model_path(model)
    settings = {"dtype": torch.float32, "trust_remote_code": trust_remote_code, **(options or {})}
    if "torch_dtype" in settings:
        settings["dtype"] = settings.pop("torch_dtype")
    settings["dtype"] = _dtype(settings["dtype"])
    if distributed and settings.pop("device_map", None) is not None:
        warnings.warn("device_map is left out: with several processes each holds the model on its device", stacklevel=4)
    try:
        loaded = _auto_class(model, settings).from_pretrained(model, **settings)
    except (OSError, ValueError, ImportError) as error:
        raise UsageError(
            f"{model!r} is not a causal language model that can be loaded: {_first_line(error)}"
        ) from error
    if "gguf_file" in settings:
        _forget_quantization(loaded)
    return loaded


def load_tokenizer(given: Any, model: Any, *, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """The tokenizer or processor given, or the one beside the model.

    The tokenizer pads on the left and has a pad token, EOS if it had none.
    """
    from transformers import AutoProcessor, AutoTokenizer, PreTrainedTokenizerBase, ProcessorMixin

    if given is None:
        try:
            given = (AutoProcessor if sees_images(model) else AutoTokenizer).from_pretrained(
                model.config._name_or_path, revision=revision, padding_side="left", trust_remote_code=trust_remote_code
            )
        except (OSError, ValueError) as error:
            raise UsageError(
                f"no tokenizer beside the model {model.config._name_or_path!r}; pass processing_class "
                f"({_first_line(error)})"
            ) from error
    tokenizer = given.tokenizer if isinstance(given, ProcessorMixin) else given
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise UsageError(f"processing_class is a {type(given).__name__}; expected a tokenizer or a processor with one")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.pad_token_id = tokenizer.pad_token_id
    return given


def sees_images(model: Any) -> bool:
    """Whether the model is one of transformers' for images and text."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    base = model.get_base_model() if is_adapted(model) else model
    return type(base).__name__ in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()


def stop_token_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Every token that ends a completion: the tokenizer's and all that the model declares."""
    declared = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    declared = [declared] if isinstance(declared, int) else list(declared or [])
    found = dict.fromkeys([tokenizer.eos_token_id, *declared])
    return tuple(token for token in found if token is not None)


def context_length(model: Any) -> int | None:
    """How many tokens prompt and completion may have together; None when the model does not say."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def add_adapter(model: Any, peft_config: Any, *, autocast: bool = True) -> Any:
    """The model with a fresh adapter around it, in float32 unless `autocast` is off.

    Raises UsageError when it already has one.
    """
    if peft_config is None:
        return model
    from peft import PeftConfig, get_peft_model

    if not isinstance(peft_config, PeftConfig):
        raise UsageError(f"peft_config is a {type(peft_config).__name__}; expected e.g. peft.LoraConfig(...)")
    if is_adapted(model):
        raise UsageError("the model already has an adapter; drop peft_config, or merge the adapter first")
    return get_peft_model(model, peft_config, autocast_adapter_dtype=autocast)


def refuse_learnt_prompts(model: Any, peft_config: Any) -> None:
    """Raise UsageError on an adapter that puts learnt tokens before the prompt, of which generation knows nothing."""
    given = getattr(model, "active_peft_config", None) if peft_config is None else peft_config
    if getattr(given, "is_prompt_learning", False):
        raise UsageError(
            f"the adapter is a {type(given).__name__}, which learns tokens or keys before the prompt; completions are "
            "written without them; use an adapter of the weights, e.g. peft.LoraConfig(...)"
        )


def drop_dropout(model: nn.Module) -> None:
    """Set every dropout probability of the model to 0."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0


def is_adapted(model: Any) -> bool:
    """Whether the model is a PEFT model."""
    return hasattr(model, "peft_config") and hasattr(model, "disable_adapter")


def frozen_copy(model: nn.Module) -> nn.Module:
    """A copy that is never trained: the policy as it is now."""
    return copy.deepcopy(model).requires_grad_(False).eval()


def check_model_path(model: Any) -> None:
    """Raise UsageError when the text names a local folder in which there is no model; ids and objects pass."""
    if not isinstance(model, str):
        return
    folder = Path(model)
    local = folder.is_absolute() or model.startswith((".", "~")) or folder.is_dir()
    if local and not (folder.is_dir() and ((folder / "config.json").is_file() or any(folder.glob("*.gguf")))):
        reason = "has no config.json" if folder.is_dir() else "does not exist"
        raise UsageError(
            f"model {model!r} {reason}; give the folder of a saved model (config.json and weights) or a hub id"
        )


def _dtype(given: Any) -> Any:
    found = getattr(torch, given, None) if isinstance(given, str) and given != "auto" else given
    if found is not None and found != "auto" and not isinstance(found, torch.dtype):
        found = None
    if found is None and given is not None:
        raise UsageError(f"dtype is {given!r} in model_init_kwargs; it must be float32, bfloat16, float16 or auto")
    return found


def _auto_class(model: str, settings: Mapping[str, Any]) -> Any:
    """Which of transformers' families the model belongs to: those that see images, or those that only read."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if "gguf_file" in settings:
        return AutoModelForCausalLM
    places = {name: settings[name] for name in ("trust_remote_code", "revision", "subfolder") if name in settings}
    named = AutoConfig.from_pretrained(model, **places).architectures or [""]
    sees = named[0] in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()
    return AutoModelForImageTextToText if sees else AutoModelForCausalLM


def _forget_quantization(model: Any) -> None:
    """A model read from GGUF has plain weights, but Trainer and save_pretrained refuse it while it remembers where they
    came from.
    """
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
