"""Resets and tool calls of many rollouts, ours and TRL's, on scripted completions; then sandbox sessions as tools.

    python benchmarks/agents.py [--repeats 3] [--sessions 256]

A span is the time from the beginning of the first call to the end of the last, within one generation batch.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "tests" / "agents"))
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from scripted import Script, call, make_model, make_tokenizer, turns_of

SPANS: list[tuple[float, float]] = []


class Timed:
    """Notes when each call of an environment began and ended."""

    reset_s = 0.0

    def reset(self, **row: Any) -> str:
        self._wait(self.reset_s)
        return "Go."

    async def fetch(self, key: str) -> str:
        """Fetch something slow.

        Args:
            key: What.
        """
        began = time.monotonic()
        await asyncio.sleep(0.1)
        SPANS.append((began, time.monotonic()))
        return key

    def get_reward(self) -> float:
        return 0.0

    def _wait(self, seconds: float) -> None:
        began = time.monotonic()
        time.sleep(seconds)
        if seconds:
            SPANS.append((began, time.monotonic()))


class SlowReset(Timed):
    """Takes as long to reset as a container takes to start."""

    reset_s = 0.2


def calls_once(text: str, index: int) -> str:
    return "done" if turns_of(text) else call("fetch", key="a")


def settings(config: type, rollouts: int, folder: str, max_completion_length: int = 200) -> Any:
    return config(
        output_dir=folder, use_cpu=True, bf16=False, num_generations=8, per_device_train_batch_size=rollouts,
        max_completion_length=max_completion_length, max_steps=1, save_strategy="no", report_to=[], disable_tqdm=True,
        gradient_checkpointing=False, logging_strategy="no",
    )  # fmt: skip


def ours(environment: type, rollouts: int, say: Callable[[str, int], str]) -> None:
    """One step of our trainer."""
    from plaudit.grpo import GRPOConfig, GRPOTrainer

    tokenizer = make_tokenizer(qwen())
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            make_model(), args=settings(GRPOConfig, rollouts, folder), processing_class=tokenizer,
            environment_factory=environment,
        )  # fmt: skip
        trainer.source.collector.writer.generator = Script(tokenizer, say)
        trainer.train()


def peer(environment: type, rollouts: int, say: Callable[[str, int], str]) -> None:
    """One step of TRL's trainer, its generation replaced by the script."""
    from plaudit.rollout.protocol import Request, SamplingOptions
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = make_tokenizer(qwen())
    script = Script(tokenizer, say)

    def one_turn(prompt_ids: Any, *_: Any, **__: Any) -> Any:
        requests = [Request(place, tuple(ids)) for place, ids in enumerate(prompt_ids)]
        made = list(script.generate(requests, SamplingOptions(max_new_tokens=200)))
        return [list(one.completion_ids) for one in made], [list(one.logprobs) for one in made]

    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            make_model(), args=settings(GRPOConfig, rollouts, folder), processing_class=tokenizer,
            environment_factory=environment,
        )  # fmt: skip
        trainer._generate_single_turn = one_turn
        trainer.train()


def qwen() -> str:
    """The chat template of Qwen2.5, as TRL ships it, so that both render the same."""
    import trl

    return (files(trl) / "chat_templates" / "qwen2_5.jinja").read_text()


def span(run: Callable[..., None], *arguments: Any, repeats: int) -> tuple[float, float]:
    """Seconds from the first call's beginning to the last one's end: the best and the worst of the repeats."""
    found = []
    for _ in range(repeats):
        SPANS.clear()
        run(*arguments)
        found.append(max(end for _, end in SPANS) - min(begin for begin, _ in SPANS))
    return min(found), max(found)


def coder() -> Any:
    """An environment with Python in a local sandbox, whose calls are timed."""
    from plaudit_sandbox.tools import SandboxTools

    class Coder(SandboxTools):
        tools = ("python",)

        async def python(self, code: str) -> str:
            """Run Python code and return what it prints.

            Args:
                code: The code.
            """
            began = time.monotonic()
            answer = await super().python(code)
            SPANS.append((began, time.monotonic()))
            return answer

    return Coder(timeout_s=120.0)


def computes(text: str, index: int) -> str:
    """Two calls that share state, then the end."""
    codes = [f"x = {index} * 3", "print('answer', x)"]
    turn = turns_of(text)
    return call("python", code=codes[turn]) if turn < 2 else "done"


def sessions(count: int) -> dict[str, float]:
    """`count` rollouts at once, each with two calls that share state, in local sandboxes."""
    from plaudit.grpo import GRPOConfig, GRPOTrainer

    right: list[bool] = []

    def check(completions: Any, **columns: Any) -> list[float]:
        right.extend(one[3]["content"] == f"answer {place * 3}" for place, one in enumerate(completions))
        return [0.0] * len(completions)

    tokenizer = make_tokenizer(qwen())
    SPANS.clear()
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            make_model(), check, settings(GRPOConfig, count, folder, max_completion_length=600),
            processing_class=tokenizer, environment_factory=coder,
        )  # fmt: skip
        trainer.source.collector.writer.generator = Script(tokenizer, computes)
        trainer.train()
    latencies = sorted(end - begin for begin, end in SPANS)
    return {
        "right": float(sum(right)),
        "span_s": max(end for _, end in SPANS) - min(begin for begin, _ in SPANS),
        "call_p50_s": latencies[len(latencies) // 2],
        "call_max_s": latencies[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=256, help="0 = leave the sandboxes out")
    chosen = parser.parse_args()
    print("| what | wanted | ours | TRL |\n|---|---|---|---|")
    for what, wanted, environment, rollouts, say in (
        ("8 rollouts, an asynchronous call of 0.1 s each", 0.15, Timed, 8, calls_once),
        ("32 rollouts, a reset of 0.2 s each", 0.3, SlowReset, 32, lambda text, index: "done"),
    ):
        (best, worst), (other, _) = (
            span(run, environment, rollouts, say, repeats=chosen.repeats) for run in (ours, peer)
        )
        print(f"| {what} | ≤ {wanted} s | {best:.3f} s (worst {worst:.3f}) | {other:.3f} s |", flush=True)
    if chosen.sessions:
        found = sessions(chosen.sessions)
        print(
            f"| {chosen.sessions} sandbox sessions, two calls each | all right | {found['right']:.0f} right, "
            f"{found['span_s']:.1f} s, call p50 {found['call_p50_s']:.2f} s, max {found['call_max_s']:.2f} s | - |"
        )


if __name__ == "__main__":
    main()
