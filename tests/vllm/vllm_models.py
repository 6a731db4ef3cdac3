"""Tiny models that vLLM's kernels for CPU can run."""

from __future__ import annotations

SHAPE = {
    "vocab_size": 79,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,  # vLLM's attention for CPU has no smaller one
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
}
ALPHABET = "0123456789+=,abcdefghijklmnopqrstuvwxyz ?!.ABCDEFGHIJKLMNOPQRSTUVWXYZ'*()$-"


def make_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: place for place, token in enumerate(["<pad>", "<eos>", "<u>", "<s>", *ALPHABET])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", clean_up_tokenization_spaces=False
    )


def make_model(family: str = "Qwen3", *, tied: bool = True, seed: int = 0, **changes):
    import torch
    import transformers

    config = getattr(transformers, f"{family}Config")(**{**SHAPE, "tie_word_embeddings": tied, **changes})
    torch.manual_seed(seed)
    return getattr(transformers, f"{family}ForCausalLM")(config).float().eval()


def perturb(model, seed: int) -> None:
    """What an optimizer step does to the trainable parameters, only more of it."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator).to(parameter)
                parameter.add_(noise * (0.5 * parameter.std() if parameter.ndim > 1 else 0.1))
