"""A tiny model with a byte-level tokenizer, saved in a folder, for what must load one from there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Helper modules lie beside these tests and the agents', which pytest's importlib mode does not look at.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "agents")]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A 2-layer Llama with random weights, a byte tokenizer and a chat template that shows tools."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: place for place, token in enumerate(["<pad>", "<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")
    made.chat_template = (
        "{% if tools %}tools:{% for t in tools %}{{ t['function']['name'] }};{% endfor %}{% endif %}"
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}[a]{% endif %}"
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=1024,
        pad_token_id=0,
        eos_token_id=1,
    )
    folder = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder
