"""The model of a run before its weights are loaded: where it lies, its tokenizer, and how much context it has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.loading import load_plugin
from plaudit.plugins.reference import Reference
from plaudit.plugins.registry import list_plugins
from plaudit.plugins.resolve import find
from plaudit.run.schema import ModelSection

_WEIGHTS = ("*.safetensors", "*.bin", "*.safetensors.index.json")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """`path`: a folder or hub id that transformers can load. `context_tokens`: None where the model names no limit.

    `processor`: of a vision-language model, whose tokenizer is a part of it.
    """

    path: str
    tokenizer: Any
    context_tokens: int | None
    architecture: str
    processor: Any = None

    @property
    def processing_class(self) -> Any:
        """What the trainer is given."""
        return self.tokenizer if self.processor is None else self.processor


def find_model(model: ModelSection) -> ModelFiles:
    """Look a model up without loading its weights: a plugin's name wins, then a folder, then a hub id.

    Raises UsageError when there is no model, or no tokenizer.
    """
    from transformers import AutoConfig, AutoProcessor, AutoTokenizer
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    path = _locate(model)
    chosen = {
        key: model.model_init_kwargs[key]
        for key in ("gguf_file", "trust_remote_code", "token")
        if key in model.model_init_kwargs
    }
    if model.revision:
        chosen["revision"] = model.revision
    try:
        config = AutoConfig.from_pretrained(path, **chosen)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"model.path = '{model.path}' is not a model: {_reason(error)}{_hub_hint(path)}") from error
    text = config.get_text_config()
    names = config.architectures or [type(config).__name__]
    sees = names[0] in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()
    try:
        found = (AutoProcessor if sees else AutoTokenizer).from_pretrained(path, padding_side="left", **chosen)
    except (OSError, ValueError, KeyError, ImportError) as error:
        what = "processor" if sees else "tokenizer"
        raise UsageError(f"model '{model.path}' has no {what} that loads: {_reason(error)}") from error
    tokenizer = getattr(found, "tokenizer", found) if sees else found
    processor = found if tokenizer is not found else None
    return ModelFiles(path, tokenizer, getattr(text, "max_position_embeddings", None), names[0], processor)


def comes_from_plugin(model: ModelSection) -> bool:
    """Whether an installed plugin offers the model: no folder here has its name."""
    here = model.path.startswith((".", "/", "~", "\\")) or Path(model.path).exists()
    return not here and find(Reference.parse(model.path), ("model",)) is not None


def _locate(model: ModelSection) -> str:
    path = Path(model.path).expanduser()
    if path.is_dir():
        _check_folder(path, model)
        return str(path)
    if path.is_file():
        raise UsageError(
            f"model.path = '{model.path}' is a file; name the folder that holds config.json and the weights"
        )
    if model.path.startswith((".", "/", "~", "\\")):
        raise UsageError(f"model.path = '{model.path}': there is no such folder")
    if comes_from_plugin(model):
        return str(load_plugin("model", model.path)())
    return model.path


def _check_folder(path: Path, model: ModelSection) -> None:
    gguf = model.model_init_kwargs.get("gguf_file")
    holds = ", ".join(sorted(entry.name for entry in path.iterdir())[:6]) or "nothing"
    if gguf is not None:
        if not (path / gguf).is_file():
            raise UsageError(f"model.path = '{path}' holds no '{gguf}' (it holds {holds})")
        return
    if not (path / "config.json").is_file():
        checkpoints = sorted(entry.name for entry in path.glob("checkpoint-*"))
        hint = f"; did you mean '{path / checkpoints[-1]}'?" if checkpoints else ""
        raise UsageError(f"model.path = '{path}' is not a model: it has no config.json (it holds {holds}){hint}")
    if not any(next(path.glob(pattern), None) for pattern in _WEIGHTS):
        raise UsageError(f"model.path = '{path}' has a config.json but no weights (it holds {holds})")


def _hub_hint(path: str) -> str:
    if Path(path).is_dir():
        return ""
    installed = ", ".join(info.name for info in list_plugins(["model"])) or "none"
    return f"; it is no folder here and no installed plugin's model (installed: {installed})"


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:160].rstrip(".")
