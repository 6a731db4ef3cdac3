"""The base model: where it lies, and how a fresh one is made."""

from __future__ import annotations

import os
from typing import Any

SPECIAL = ["<pad>", "<eos>"]
WORDS = ["<think>", "</think>", "<answer>", "</answer>", "max", *"0123456789+=,()"]


def path() -> str:
    """Folder of the base model that ships with the package: weights, config and tokenizer."""
    return os.path.join(os.path.dirname(__file__), "base_model")


def new_tokenizer() -> Any:
    """A tokenizer with one token a digit or sign, and one for each tag."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"</?(think|answer)>|max|."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def new_model(seed: int) -> Any:
    """A Qwen3 model of about 0.15 M parameters with random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=32,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(config).float()
