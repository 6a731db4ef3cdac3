"""The loop of TRL beside ours on one script: token ids, masks, log-probs, messages and metrics are equal."""

from __future__ import annotations

import os
from importlib.resources import files

import pytest
from datasets import Dataset
from plaudit.rollout.protocol import Request, SamplingOptions
from scripted import Keep, Script, call, make_model, make_tokenizer, turns_of

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
pytestmark = pytest.mark.peer
METRICS = (
    "tools/call_frequency", "tools/failure_frequency", "num_tokens", "completions/mean_length",
    "completions/min_length", "completions/max_length", "completions/clipped_ratio",
    "completions/mean_terminated_length", "rewards/Game/mean", "reward", "reward_std",
)  # fmt: skip


class Game:
    """Adds steps up to a target of its row."""

    def reset(self, target, **row):
        self.count, self.target = 0, target
        return f" Target: {target}."

    def step(self, size: int) -> int:
        """Step forward.

        Args:
            size: How far.

        Returns:
            Where that is.
        """
        if size > 5:
            raise ValueError("too far")
        self.count += size
        return self.count

    async def look(self) -> str:
        """Look around.

        Returns:
            What is there.
        """
        return "fog " * (30 * self.target)

    def get_reward(self) -> float:
        return float(self.count)


def play(text, index):
    """Rollouts of one, two and three turns; failing, several and long answers; a turn that is cut."""
    place, turn = index % 4, turns_of(text)
    scripts = [
        ["at once"],
        [call("step", size=2) + call("step", size=9) + call("step", size=1), "then done"],
        [call("look"), call("step", size=1), "w" * 300],
        [call("step", size=1)] * 6,
    ]
    return scripts[place][turn] if turn < len(scripts[place]) else "end"


ROWS = [
    {"prompt": [{"role": "user", "content": f"play {place}"}], "target": place, "id": place} for place in range(1, 5)
]


def settings(config, tmp_path, **more):
    return config(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, num_generations=4, per_device_train_batch_size=16,
        max_completion_length=360, max_steps=1, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True,
        gradient_checkpointing=False, shuffle_dataset=False, **more,
    )  # fmt: skip


class PeerTurns:
    """TRL's generation of one turn, by the script.

    Its later rounds hold only the rollouts that go on; which they are is told by how they begin.
    """

    def __init__(self, tokenizer):
        self.script = Script(tokenizer, play)
        self.told: dict[int, tuple[int, ...]] = {}

    def __call__(self, prompt_ids, images, fields, num_generations, has_tool_images=False):
        places = self._places(prompt_ids) if self.told else list(range(len(prompt_ids)))
        requests = [Request(place, tuple(ids)) for place, ids in zip(places, prompt_ids, strict=True)]
        made = list(self.script.generate(requests, SamplingOptions(max_new_tokens=360)))
        for request, one in zip(requests, made, strict=True):
            self.told[request.index] = (*request.prompt_ids, *one.completion_ids)
        return [list(one.completion_ids) for one in made], [list(one.logprobs) for one in made]

    def _places(self, prompt_ids):
        found = []
        for ids in prompt_ids:
            begins = (place for place, told in self.told.items() if tuple(ids[: len(told)]) == told)
            found.append(next(place for place in begins if place not in found))
        return found


def peer(tmp_path, tokenizer, keep, **more):
    """TRL's trainer, its generation replaced by the script; what it collects."""
    from trl import GRPOConfig, GRPOTrainer

    trainer = GRPOTrainer(
        make_model(), [keep], settings(GRPOConfig, tmp_path, **more), Dataset.from_list(ROWS),
        processing_class=tokenizer, environment_factory=Game,
    )  # fmt: skip
    trainer._generate_single_turn = PeerTurns(tokenizer)
    generate, collected = trainer._generate, {}

    def noting(prompts):
        names = ("prompt_ids", "completion_ids", "tool_mask", "completions", "logprobs")
        output = generate(prompts)
        collected.update(zip(names, output[:5], strict=True))
        return output

    trainer._generate = noting
    trainer.train()
    return collected, trainer.state.log_history[0]


def ours(tmp_path, tokenizer, keep, **more):
    from plaudit.grpo import GRPOConfig, GRPOTrainer

    trainer = GRPOTrainer(
        make_model(), [keep], settings(GRPOConfig, tmp_path, **more), Dataset.from_list(ROWS),
        processing_class=tokenizer, environment_factory=Game,
    )  # fmt: skip
    trainer.source.collector.writer.generator = Script(tokenizer, play)
    rollouts = []
    record = trainer.source.collected
    trainer.source.collected = lambda batch, mode: rollouts.extend(batch.rollouts) or record(batch, mode)
    trainer.train()
    collected = {
        "prompt_ids": [list(one.prompt_ids) for one in rollouts],
        "completion_ids": [list(one.completion_ids) for one in rollouts],
        "tool_mask": [list(one.tool_mask or [1] * len(one.completion_ids)) for one in rollouts],
        "completions": [one.completion for one in rollouts],
        "logprobs": [list(one.logprobs) for one in rollouts],
    }
    return collected, trainer.state.log_history[0]


def spoken(completion):
    """Role, words and calls of each message. Ids of calls are each trainer's own; a call that was cut off is text to
    the peer, and left out by us.
    """
    return [
        (
            message["role"],
            (message.get("content") or "").split("<tool_call>")[0].strip(),
            [(one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls") or ()],
        )
        for message in completion
    ]


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3"])
@pytest.mark.parametrize("limit", [None, 2, 0])
def test_the_loop_is_the_peers(tmp_path, family, limit):
    import trl

    template = (files(trl) / "chat_templates" / f"{family}.jinja").read_text()
    more = {"max_tool_calling_iterations": limit}
    theirs, their_log = peer(tmp_path / "peer", make_tokenizer(template), Keep(), **more)
    mine, my_log = ours(tmp_path / "ours", make_tokenizer(template), Keep(), **more)
    for name in ("prompt_ids", "completion_ids", "tool_mask", "logprobs"):
        assert mine[name] == theirs[name], name
    assert [spoken(one) for one in mine["completions"]] == [spoken(one) for one in theirs["completions"]]
    for name in METRICS:
        assert my_log[name] == pytest.approx(their_log[name], rel=1e-5), name
    assert limit == 0 or any(0 in mask for mask in mine["tool_mask"])
