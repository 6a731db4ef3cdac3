"""`plaudit generate MODEL PROMPT…`: try a model on some prompts."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from plaudit.errors import UsageError

HELP = "try a model on some prompts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit generate`."""
    parser.add_argument("model", metavar="MODEL", help="a plugin's model, a folder (also of an adapter), a hub id")
    parser.add_argument(
        "prompts", nargs="*", default=[], metavar="PROMPT", help="by default each line of standard input"
    )
    parser.add_argument("--system", metavar="TEXT", help="a system prompt; prompts become conversations")
    parser.add_argument("--chat", action="store_true", help="give prompts as a user's message, by the chat template")
    add_sampling_arguments(parser)
    parser.add_argument(
        "-n", "--num", type=int, default=1, metavar="N", help="completions of each prompt (%(default)s)"
    )


def add_sampling_arguments(parser: argparse.ArgumentParser) -> None:
    """How completions are drawn."""
    parser.add_argument("--max-new-tokens", type=int, default=256, metavar="N", help="longest completion (%(default)s)")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 = greedy (%(default)s)")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="nucleus sampling (%(default)s)")
    parser.add_argument("--top-k", type=int, default=0, metavar="K", help="sample from K tokens, 0 = all (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of what is drawn (%(default)s)")
    parser.add_argument("--dtype", metavar="DTYPE", help="of the weights, e.g. bfloat16 (float32)")


def sampling_of(args: argparse.Namespace) -> Any:
    """The sampling options of the arguments. Raises UsageError on a value out of range."""
    from plaudit.rollout.protocol import SamplingOptions

    return SamplingOptions(
        max_new_tokens=args.max_new_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        seed=args.seed,
    )


def run(args: argparse.Namespace) -> int:
    """Print the completions."""
    from plaudit.cli.train import require_packages

    sampling = sampling_of(args)
    if args.num < 1:
        raise UsageError(f"-n {args.num}: expected at least 1")
    prompts = args.prompts or [line.rstrip("\n") for line in sys.stdin if line.strip()]
    if not prompts:
        raise UsageError("there is no prompt; give one, or lines on standard input")
    require_packages()
    from plaudit.grpo.generating.alone import completions
    from plaudit.run.launch import quiet_libraries
    from plaudit.run.loading_models import load_for_inference
    from plaudit.run.samples import plain_text

    asked = [_prompt(prompt, args) for prompt in prompts]
    with quiet_libraries():
        model, tokenizer = load_for_inference(args.model, dtype=args.dtype)
        found = completions(model, tokenizer, asked, sampling, num_generations=args.num)
    for prompt, texts in zip(prompts, found, strict=True):
        for text in texts:
            shown = text if isinstance(text, str) else plain_text(text[0]["content"])
            print(f"{prompt}\n--> {shown}\n")
    return 0


def _prompt(text: str, args: argparse.Namespace) -> Any:
    if not (args.chat or args.system):
        return text
    system = [{"role": "system", "content": args.system}] if args.system else []
    return [*system, {"role": "user", "content": text}]
