"""The weights of small Llama-family models, folded for `FusedDecoder`; and which models those are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Affine = tuple["Tensor", "Tensor | None"]  # weight, bias
FAMILY = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
ROTARY_TYPES = ("default", "linear", "llama3", "yarn")  # the angle depends on the position alone
MAX_LAYER_PARAMETERS = 32_000_000  # the weights are copied at each call, which large models would notice


def covered(model: Any) -> bool:
    """Whether `FusedDecoder` can compute the model: in float32, no adapters, hooks, quantisation or autocast."""
    import torch
    import transformers

    if type(model) not in [getattr(transformers, name) for name in FAMILY]:
        return False
    layers = model.model.layers
    called = (model.model.embed_tokens, model.lm_head)  # as modules, with whatever is attached to them
    plain = (torch.nn.Module, torch.nn.Linear, torch.nn.Embedding)
    return (
        sum(parameter.numel() for parameter in layers.parameters()) <= MAX_LAYER_PARAMETERS
        and all(parameter.dtype == torch.float32 for parameter in model.parameters())
        and not torch.is_autocast_enabled(model.device.type)
        and model.model.rotary_emb.rope_type in ROTARY_TYPES
        and 2 * len(model.model.rotary_emb.inv_freq) == layers[0].self_attn.head_dim
        and all(_unaltered(module, plain) for module in model.modules() if module not in called)
    )


def _unaltered(module: Any, plain: tuple[type, ...]) -> bool:
    home = type(module).__module__
    known = type(module) in plain or home.startswith(("transformers.", "torch.nn.modules."))
    return known and not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


@dataclass(frozen=True, slots=True)
class FoldedLayer:
    """Folded weights of a decoder layer. H hidden size, D head size, Q query heads, K key-value heads, I MLP size."""

    qkv: Affine  # ((Q + 2K) D, H), queries and keys with interleaved heads
    head_norm: Tensor | None  # (Q + K, D), interleaved: Qwen3's norms of queries and keys, queries scaled
    out: Affine  # (Q D, H), transposed
    gate_up: Affine  # (2I, H)
    activation: Callable[[Tensor], Tensor]
    down: Affine  # (I, H), transposed
    window: int | None  # how many of the latest columns a query sees; None all

    @classmethod
    def of(cls, layer: Any) -> FoldedLayer:
        """Fold a LlamaDecoderLayer, Qwen2DecoderLayer or Qwen3DecoderLayer."""
        import torch

        attention, mlp = layer.self_attn, layer.mlp
        query, key, value = attention.q_proj, attention.k_proj, attention.v_proj
        size, head_norm, scale = attention.head_dim, None, attention.scaling
        if hasattr(attention, "q_norm"):
            queries = (attention.q_norm.weight * scale).expand(query.out_features // size, -1)
            keys = attention.k_norm.weight.expand(key.out_features // size, -1)
            head_norm, scale = interleaved(torch.cat([queries, keys]), size, dim=1), 1.0
        weight, bias = _joined([query, key, value], layer.input_layernorm, scale)
        rotating = query.out_features + key.out_features
        return cls(
            qkv=(_rotating_interleaved(weight, rotating, size), _rotating_interleaved(bias, rotating, size)),
            head_norm=head_norm,
            out=(attention.o_proj.weight.t(), attention.o_proj.bias),
            gate_up=_joined([mlp.gate_proj, mlp.up_proj], layer.post_attention_layernorm, 1.0),
            activation=mlp.act_fn.forward,
            down=(mlp.down_proj.weight.t(), mlp.down_proj.bias),
            window=getattr(attention, "sliding_window", None),
        )


def interleaved(values: Tensor, size: int, *, dim: int) -> Tensor:
    """Reorder the `size` entries of each head along `dim`: the two that rotate together become neighbours.

    Scores do not change when queries and keys are reordered alike, and neighbours rotate as one complex number.
    """
    shape = values.shape
    return values.unflatten(dim, (-1, 2, size // 2)).transpose(dim + 1, dim + 2).reshape(shape)


def _rotating_interleaved(values: Tensor | None, rotating: int, size: int) -> Any:
    """The rows of queries and keys interleaved, those of values as they are."""
    import torch

    if values is None:
        return None
    return torch.cat([interleaved(values[:rotating], size, dim=0), values[rotating:]])


def _joined(projections: Sequence[Any], norm: Any, scale: float) -> Affine:
    """One projection in place of several of the same input, after a norm; the first one's output is scaled.

    The input is normed to length 1: the root of its size is in the weight.
    """
    import torch

    first, *others = projections
    weight = torch.cat([first.weight * scale, *(other.weight for other in others)]) * folded_norm(norm.weight)
    if first.bias is None:
        return weight, None
    return weight, torch.cat([first.bias * scale, *(other.bias for other in others)])


def folded_norm(weight: Tensor) -> Tensor:
    """An RMS norm's weight for inputs that are divided by their length rather than by their root mean square."""
    return weight * len(weight) ** 0.5
