"""The base model: where it lies, and how a fresh one is made."""

from __future__ import annotations

import os
from typing import Any

HEAD, TAIL = '{"name": "calculate", "arguments": {"expression": "', '"}}'
SPECIAL = ["<pad>", "<|im_end|>", "<|im_start|>"]
PIECES = ["<tools>", "</tools>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", HEAD, TAIL]
WORDS = ["calculate", "user", "assistant", "tool", "system", "error"]
CHARACTERS = [*"0123456789+-*/=().: \n", *"abcdefghijklmnopqrstuvwxyz'"]
# Calls as Hermes and Qwen write them; the schemas are shown by name alone, to keep a tiny model's prompts short.
CHAT_TEMPLATE = (
    "{% if tools %}<tools>{% for tool in tools %}{{ tool.function.name }}{% endfor %}</tools>{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'tool' %}<tool_response>{{ message.content }}</tool_response>"
    "{% else %}{{ message.content }}{% endif %}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def path() -> str:
    """Folder of the base model that ships with the package: weights, config and tokenizer."""
    return os.path.join(os.path.dirname(__file__), "base_model")


def new_tokenizer() -> Any:
    """A tokenizer with one token a character, and one for each tag and for the unchanging parts of a call."""
    import re

    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    whole = [*SPECIAL, *PIECES, *WORDS]
    vocabulary = {token: index for index, token in enumerate([*whole, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    pattern = "|".join([*map(re.escape, whole), "."])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f"(?m)(?:{pattern}|\\n)"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def new_model(seed: int) -> Any:
    """A Qwen3 model of about 0.15 M parameters with random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=72,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(config).float()
