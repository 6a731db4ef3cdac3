"""A tiny Qwen3 and a character tokenizer, made in memory."""

from __future__ import annotations

import torch

CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m['role'][0] }}>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}{% if shout is defined and shout %}!{% endif %}"
)
ALPHABET = "0123456789+=,abcdefghijklmnopqrstuvwxyz ?!.ABCDEFGHIJKLMNOPQRSTUVWXYZ'*()$-"


def make_tokenizer(chat: bool = True):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: place for place, token in enumerate(["<pad>", "<eos>", "<u>", "<s>", "<a>", *ALPHABET])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"<[usa]>|."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", clean_up_tokenization_spaces=False
    )
    if chat:
        made.chat_template = CHAT_TEMPLATE
    return made


def make_model(seed: int = 0, *, dtype: torch.dtype = torch.float32, tied: bool = True, **more):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    settings = {
        "vocab_size": len(ALPHABET) + 5,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 96,
        "tie_word_embeddings": tied,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": None,
        "initializer_range": 0.3,
    }
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(**{**settings, **more})).to(dtype)


def lora(**more):
    """A LoRA adapter of the tiny model."""
    from peft import LoraConfig

    return LoraConfig(task_type="CAUSAL_LM", **{"r": 4, "target_modules": ["q_proj", "v_proj"], **more})
