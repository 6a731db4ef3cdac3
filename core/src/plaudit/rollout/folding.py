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
        and all(_unaltered(module, plain) for module in model.modules() if module not in called)
    )


def _unaltered(module: Any, plain: tuple[type, ...]) -> bool:
    home = type(module).__module__
    known = type(module) in plain or home.startswith(("transformers.", "torch.nn.modules."))
    return known and not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


@dataclass(frozen=True, slots=True)
class FoldedLayer:
    """Folded weights of a decoder layer. H hidden size, D head size, Q query heads, K key-value heads, I MLP size."""

    qkv: Affine  # ((Q + 2K) D, H)
    head_norm: Tensor | None  # (Q + K, D): Qwen3's norms of queries and keys, queries scaled
    out: Affine  # (H, Q D)
    gate_up: Affine  # (2I, H)
    activation: Callable[[Tensor], Tensor]
    down: Affine  # (H, I)
    window: int | None  # how many of the latest columns a query sees; None all

    @classmethod
    def of(cls, layer: Any) -> FoldedLayer:
        """Fold a LlamaDecoderLayer, Qwen2DecoderLayer or Qwen3DecoderLayer."""
        import torch

        attention, mlp = layer.self_attn, layer.mlp
        query, key, value = attention.q_proj, attention.k_proj, attention.v_proj
        head_norm, scale = None, attention.scaling
        if hasattr(attention, "q_norm"):
            queries = (attention.q_norm.weight * scale).expand(query.out_features // attention.head_dim, -1)
            keys = attention.k_norm.weight.expand(key.out_features // attention.head_dim, -1)
            head_norm, scale = torch.cat([queries, keys]), 1.0
        return cls(
            qkv=_joined([query, key, value], layer.input_layernorm, scale),
            head_norm=head_norm,
            out=(attention.o_proj.weight, attention.o_proj.bias),
            gate_up=_joined([mlp.gate_proj, mlp.up_proj], layer.post_attention_layernorm, 1.0),
            activation=mlp.act_fn,
            down=(mlp.down_proj.weight, mlp.down_proj.bias),
            window=getattr(attention, "sliding_window", None),
        )


def _joined(projections: Sequence[Any], norm: Any, scale: float) -> Affine:
    """One projection in place of several of the same input, after a norm; the first one's output is scaled."""
    import torch

    first, *others = projections
    weight = torch.cat([first.weight * scale, *(other.weight for other in others)]) * norm.weight
    if first.bias is None:
        return weight, None
    return weight, torch.cat([first.bias * scale, *(other.bias for other in others)])
