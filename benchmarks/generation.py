"""CPU seconds of the decode loop beside transformers' generate(), on the same prompts and weights.

    python benchmarks/generation.py --repeats 5

Both sample at temperature 1. Completions of the quickstart task end by themselves, the others all have the same length.
They take turns; the least of the repeats counts, for a busy machine only adds to it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from plaudit.rollout.protocol import Request, SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator
from plaudit_quickstart import data
from plaudit_quickstart.model import path

Prompts = Sequence[tuple[int, ...]]


def quickstart() -> tuple[Any, Prompts, int, int | None]:
    """The tiny model of the quickstart: 16 prompts x 8, up to 40 tokens."""
    model = transformers.AutoModelForCausalLM.from_pretrained(path(), dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path())
    rows = data.addition("train", size=16, seed=0)
    return model, [tuple(tokenizer(row["prompt"])["input_ids"]) for row in rows], 40, tokenizer.eos_token_id


def middling(prompts: int, length: int, limit: int) -> tuple[Any, Prompts, int, None]:
    """12.5 M parameters: Qwen2, H = 256, 4 layers, V = 32k."""
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=32_000, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=True, eos_token_id=None, bos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = transformers.Qwen2ForCausalLM(config).eval()
    model.generation_config.eos_token_id = None
    return model, [tuple(torch.randint(1, 32_000, (length,)).tolist()) for _ in range(prompts)], limit, None


WORKLOADS: dict[str, Callable[[], tuple[Any, Prompts, int, int | None]]] = {
    "quickstart: 16 prompts x 8, up to 40 tokens": quickstart,
    "12.5 M, 1 prompt of 192 x 8, 64 tokens": lambda: middling(1, 192, 64),
    "12.5 M, 2 prompts of 1,024 x 8, 16 tokens": lambda: middling(2, 1024, 16),
    "12.5 M, 4 prompts of 64 x 8, 32 tokens": lambda: middling(4, 64, 32),
}


def ours(model: Any, prompts: Prompts, limit: int, end: int | None, seed: int) -> int:
    """Tokens written by the decode loop."""
    requests = [Request(place, prompt) for place, prompt in enumerate(p for p in prompts for _ in range(8))]
    done = TransformersGenerator(model).generate(requests, SamplingOptions(max_new_tokens=limit, seed=seed))
    return sum(len(generated.completion_ids) for generated in done)


def theirs(model: Any, prompts: Prompts, limit: int, end: int | None, seed: int) -> int:
    """Tokens written by generate(), left-padded, a row for each completion."""
    torch.manual_seed(seed)
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts for _ in range(8)])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts for _ in range(8)])
    with torch.no_grad():
        written = model.generate(
            input_ids=ids, attention_mask=mask, do_sample=True, top_k=0, max_new_tokens=limit, pad_token_id=0
        )[:, width:]
    ended = (written == (-1 if end is None else end)).cumsum(1)
    return int((ended == 0).sum() + (ended[:, -1:] > 0).sum())


def seconds(write: Callable[..., int], repeats: int, *arguments: Any) -> float:
    """Least CPU seconds of a call."""
    found = []
    for seed in range(repeats):
        began = time.process_time()
        write(*arguments, seed)
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workloads", type=int, nargs="*", help="numbers of workloads, from 0; all by default")
    parser.add_argument("--json", type=Path, help="where the figures are written as well")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    figures = {}
    for number, (name, make) in enumerate(WORKLOADS.items()):
        if given.workloads and number not in given.workloads:
            continue
        work = make()
        ours(*work, 0)
        pairs = [(seconds(theirs, 1, *work), seconds(ours, 1, *work)) for _ in range(given.repeats)]
        peer, own = (min(side) for side in zip(*pairs, strict=True))
        figures[name] = {"generate": peer, "plaudit": own, "ratio": peer / own}
        print(f"{name:45s} generate() {peer:6.3f}  plaudit {own:6.3f} CPU s  ratio {peer / own:.2f}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
