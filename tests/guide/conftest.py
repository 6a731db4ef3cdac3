"""A tiny chat model, and a working directory in which the examples lie where their comments say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Helper modules of these tests lie beside them, which pytest's importlib mode does not look at.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory) -> Path:
    """Folder of a Qwen3 of two layers with random weights: a byte tokenizer, a chat template that carries tools."""
    import torch
    from plaudit_gym.tool_user.model import CHAT_TEMPLATE
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    special = ["<pad>", "<|im_end|>", "<|im_start|>"]
    vocabulary = {token: place for place, token in enumerate([*special, *pre_tokenizers.ByteLevel.alphabet()])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in special])
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<|im_end|>", padding_side="left"
    )
    made.chat_template = CHAT_TEMPLATE
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=4096,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    folder = tmp_path_factory.mktemp("chat_model")
    Qwen3ForCausalLM(config).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


@pytest.fixture
def work_folder(tmp_path, monkeypatch) -> Path:
    """An empty current directory with examples/ and skills/, offline."""
    for name in ("examples", "skills"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path
