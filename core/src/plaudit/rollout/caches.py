"""Key-value caches by the names that transformers gives them, and which models each one takes."""

from __future__ import annotations

from math import gcd
from typing import Any

from ..errors import UsageError

CACHES = ("dynamic", "static", "quantized")
"""dynamic: grows with the rows. static: shapes that stay as they are for many steps, see `StaticDecoder`. quantized:
keys and values in 4 bits, by optimum-quanto."""

ATTENDING = ("full_attention", "sliding_attention")
MASKED = ("sdpa", "eager")  # the attention implementations that look at the mask alone, not at the cache's length
GROUP_SIZE = 64


def refuse_cache(model: Any, name: str | None) -> None:
    """Raise UsageError if the model cannot decode with the cache of that name, or it needs what is not installed."""
    if name is not None and name not in CACHES:
        raise UsageError(f"cache_implementation is {name!r}; it must be one of {', '.join(CACHES)}, or None")
    reason = {"static": why_not_static, "quantized": _why_not_quantized}.get(name or "", lambda model: None)(model)
    if reason is not None:
        raise UsageError(f"cache_implementation={name!r} does not fit {type(base_of(model)).__name__}: {reason}")
    if name == "quantized":
        check_quanto()


def why_not_static(model: Any) -> str | None:
    """What keeps the model from decoding with static shapes, or None."""
    config = model.config.get_text_config()
    others = sorted(set(_layer_types(config)) - set(ATTENDING))
    if others:
        return f"it has layers of type {', '.join(others)}; static shapes are for attention alone. Use 'dynamic'"
    if getattr(config, "num_kv_shared_layers", 0):
        return "its layers share keys and values. Use 'dynamic'"
    if config._attn_implementation not in MASKED:
        return (
            f"its attention is {config._attn_implementation!r}; static shapes need one of {', '.join(MASKED)}. Load it "
            "with that attn_implementation, or use 'dynamic'"
        )
    return None


def _why_not_quantized(model: Any) -> str | None:
    others = sorted(set(_layer_types(model.config.get_text_config())) - {"full_attention"})
    if not others:
        return None
    return f"transformers quantizes full attention alone, and it has layers of type {', '.join(others)}. Use 'dynamic'"


def growing_cache(model: Any) -> Any:
    """A cache that keeps what the model's kinds of layers need."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config.get_text_config())


def whole_cache() -> Any:
    """A cache that keeps every column of every layer, those outside a sliding window too."""
    from transformers import DynamicCache

    return DynamicCache()


def quantized_cache(model: Any) -> Any:
    """Keys and values in 4 bits, by optimum-quanto."""
    from transformers import QuantizedCache

    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    # A group must divide a row's entries, whatever the number of its tokens.
    return QuantizedCache(backend="quanto", config=config, q_group_size=gcd(GROUP_SIZE, heads * size))


def check_quanto() -> None:
    """Raise UsageError if optimum-quanto is missing."""
    from transformers.utils import is_optimum_quanto_available

    if not is_optimum_quanto_available():
        raise UsageError("cache_implementation='quantized' needs optimum-quanto: pip install optimum-quanto")


def base_of(model: Any) -> Any:
    """The model inside a PEFT wrapper, or the model."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _layer_types(config: Any) -> list[str]:
    named = getattr(config, "layer_types", None)
    return list(named) if named else [ATTENDING[getattr(config, "sliding_window", None) is not None]]
