"""Tiny models with random weights, one of each shape that the generator must decode exactly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Helper modules of these tests lie beside them, which pytest's importlib mode does not look at.
sys.path.insert(0, str(Path(__file__).parent))

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    # Large weights, so that greedy completions differ and no two logits nearly tie.
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
}
LLAMA3_ROTARY = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
VARIANTS = {
    "qwen2": ("Qwen2", {}),
    "qwen2_sliding": ("Qwen2", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "qwen3_sliding": (
        "Qwen3",
        {"head_dim": 16, "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    ),
    "llama": ("Llama", {}),
    "llama_biased": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama3_rotary": ("Llama", {"rope_parameters": LLAMA3_ROTARY}),
    "llama_dynamic_rotary": ("Llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}),
    "smollm2": (
        "Llama",
        {"num_attention_heads": 3, "num_key_value_heads": 1, "hidden_size": 24, "tie_word_embeddings": True},
    ),
    "mistral_sliding": ("Mistral", {"sliding_window": 6}),
    "gemma": ("Gemma", {"head_dim": 16}),
    "gemma2_sliding": ("Gemma2", {"head_dim": 16, "sliding_window": 6, "query_pre_attn_scalar": 16}),
    "gemma3_sliding": ("Gemma3Text", {"head_dim": 16, "sliding_window": 6, "query_pre_attn_scalar": 16}),
}


@pytest.fixture
def tiny_model():
    """Builder of a named variant, in float32 and eval mode."""
    import torch
    import transformers

    def build(variant: str, **changes):
        family, special = VARIANTS[variant]
        config = getattr(transformers, f"{family}Config")(**{**SHAPE, **special, **changes})
        torch.manual_seed(0)
        model_class = getattr(transformers, f"{family.removesuffix('Text')}ForCausalLM")
        model = model_class(config).float().eval()
        for parameter in model.parameters():  # biases and norms start constant: make them count
            if parameter.ndim == 1:
                torch.nn.init.normal_(parameter, mean=1.0, std=0.3)
        return model

    return build


@pytest.fixture(params=VARIANTS)
def variant(request) -> str:
    """Every variant in turn."""
    return request.param


@pytest.fixture
def requests_of():
    """Requests 0, 1, … for the given prompts."""
    from plaudit.rollout.protocol import Request

    return lambda prompts: [Request(index, tuple(prompt)) for index, prompt in enumerate(prompts)]
