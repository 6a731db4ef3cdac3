"""The work that speed.py, memory.py and scaling.py measure: models with random weights, prompts, completions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

PAD, EOS = 0, 1


@dataclass(frozen=True)
class Workload:
    """One optimizer step: `prompts` x `generations` completions of `completion` tokens to prompts of `prompt` tokens.

    `lengths`: each completion ends exactly there; without it they end where the policy ends them. `bar`: how many
    times faster than TRL (tuned) a step must be, `pass_bar` forward and backward alone. `steps` are measured after
    `warmup` others. `script`: what runs one measurement.
    """

    what: str
    prompts: int
    generations: int
    prompt: int
    completion: int
    bar: float
    pass_bar: float | None = None
    lengths: tuple[int, ...] | None = None
    hidden: int = 256
    layers: int = 6
    vocabulary: int = 32_000
    rewards: int = 1
    steps: int = 3
    warmup: int = 1
    script: str = "speed_run.py"


WORKLOADS = {
    "quickstart": Workload(
        "quickstart task, 16 prompts x 8 completions a step", 16, 8, 8, 40, bar=2.0, steps=60, warmup=0
    ),
    "model": Workload("13 M-parameter Qwen2 shape, V = 32k, B 8, P 192, C 64", 1, 8, 192, 64, bar=2.0, pass_bar=2.5),
    "long-prompt": Workload("long prompt (1,024), G = 8, answers of 16", 1, 8, 1024, 16, bar=3.0),
    "mixed": Workload(
        "lengths mixed (one 512, the others at most 64)",
        1,
        8,
        64,
        512,
        bar=2.5,
        lengths=(512, 64, 50, 40, 30, 20, 64, 16),
        steps=2,
    ),
}


def build_model(vocabulary: int, hidden: int, layers: int, *, longest: int = 2048, seed: int = 0) -> Any:
    """A Qwen2 with tied embeddings and random weights, in float32; no token is likely, so hardly any row ends early."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 64),
        num_key_value_heads=max(1, hidden // 128),
        max_position_embeddings=longest,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=None,
    )
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(config).float()


def build_tokenizer(vocabulary: int) -> Any:
    """A tokenizer of `vocabulary` words: t2, t3, …"""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": PAD, "<eos>": EOS, **{f"t{number}": number for number in range(2, vocabulary)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )


def build_rows(vocabulary: int, length: int, count: int, *, seed: int = 0) -> list[dict[str, str]]:
    """Rows with a prompt of `length` random words."""
    rng = random.Random(seed)
    return [{"prompt": " ".join(f"t{rng.randrange(2, vocabulary)}" for _ in range(length))} for _ in range(count)]


def build_rewards(count: int) -> list[Callable[..., list[float]]]:
    """Rewards that differ within every group, so that every row teaches."""

    def reward(number: int) -> Callable[..., list[float]]:
        def score(completions: Sequence[str], **_: Any) -> list[float]:
            return [float((place + number) % 2) + 0.1 * (place % 8) for place in range(len(completions))]

        score.__name__ = f"reward_{number}"
        return score

    return [reward(number) for number in range(count)]
