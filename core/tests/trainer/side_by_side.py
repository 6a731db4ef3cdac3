"""Train TRL and Plaudit on the same rows with the same, injected completions."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import torch
from plaudit.rollout.protocol import Generated

ROWS = [{"prompt": f"{'ab'[n % 2] * (1 + n % 3)}{n}=", "answer": str(n)} for n in range(12)]
LIMIT = 10


def completion(call: int, place: int) -> list[int]:
    """The token ids that are injected for the `place`-th prompt of the `call`-th generation: some end, some are cut."""
    rng = random.Random(call * 1000 + place)
    length = rng.randint(1, LIMIT)
    ids = [rng.randint(5, 40) for _ in range(length)]
    return ids if length == LIMIT else [*ids[:-1], 1]


def reward_sum(completion_ids, **kwargs):
    """Depends on the tokens; abstains now and then."""
    return [None if sum(ids) % 7 == 0 else (sum(ids) % 11) / 10 for ids in completion_ids]


async def reward_length(completion_ids, log_metric, **kwargs):
    """Often the same in a group."""
    log_metric("long", sum(len(ids) > 5 for ids in completion_ids) / len(completion_ids))
    return [float(len(ids) > 5) for ids in completion_ids]


class Injected:
    """Plaudit's generator protocol. `rank`: which part of the batch this process writes."""

    exact = True  # no engine of its own, whose mismatch would be corrected

    def __init__(self, rank=0):
        self.calls, self.rank = -1, rank

    def generate(self, requests, sampling):
        self.calls += 1
        first = self.rank * len(requests)
        made = [completion(self.calls, first + request.index) for request in requests]
        order = list(range(len(made)))
        random.Random(0).shuffle(order)
        for index in order:
            reason = "stop" if made[index][-1] == 1 else "length"
            yield Generated(index, tuple(made[index]), (0.0,) * len(made[index]), reason)

    def refresh(self, step):
        """It knows no weights."""

    def close(self):
        """It holds nothing."""


def in_order(n, *args, generator=None, **kwargs):
    """torch.randperm, but micro-batches stay in the order of their rows; samplers shuffle as ever."""
    return torch.arange(n) if generator is None else RANDPERM(n, *args, generator=generator, **kwargs)


RANDPERM = torch.randperm


def settings(output_dir, **more):
    return {
        "output_dir": str(output_dir),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "max_completion_length": LIMIT,
        "learning_rate": 3e-3,
        "max_steps": 5,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "reward_weights": [1.0, 0.4],
        "seed": 7,
        **more,
    }


def run_trl(model, tokenizer, output_dir, **more):
    from trl import GRPOConfig, GRPOTrainer

    return run(GRPOTrainer, GRPOConfig, model, tokenizer, output_dir, **more)


def run_plaudit(model, tokenizer, output_dir, **more):
    from plaudit.grpo import GRPOConfig, GRPOTrainer

    return run(GRPOTrainer, GRPOConfig, model, tokenizer, output_dir, **more)


def run(
    trainer_class, config_class, model, tokenizer, output_dir, *, evaluate=False, peft_config=None, rows=ROWS, **more
):
    """A real train(); returns logs (one dict a step), evaluation metrics, final weights."""
    from datasets import Dataset

    data = Dataset.from_list(rows)
    if evaluate:
        more = {"per_device_eval_batch_size": 8, **more}
    trainer = trainer_class(
        model=model,
        reward_funcs=[reward_sum, reward_length],
        args=config_class(**settings(output_dir, **more)),
        train_dataset=data,
        eval_dataset=data.select(range(4)) if evaluate else None,
        processing_class=tokenizer,
        peft_config=peft_config,
    )
    inject(trainer)
    with mock.patch("torch.randperm", in_order):
        trainer.train()
        metrics = trainer.evaluate() if evaluate else {}
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    weights = {name: whole(value).clone() for name, value in trainer.model.named_parameters()}
    return SimpleNamespace(logs=logs, evaluation=metrics, weights=weights)


def whole(parameter):
    """The weight, of all ranks when they share it."""
    value = parameter.detach()
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def use_generator(trainer, generator):
    """Let `generator` write the completions of a Plaudit trainer."""
    collector = trainer.source.collector
    trainer.source.collector = replace(collector, writer=replace(collector.writer, generator=generator))


def inject(trainer):
    if hasattr(trainer, "source"):
        generator = Injected(trainer.accelerator.process_index)
        use_generator(trainer, generator)
        return
    calls = iter(range(1000))

    def single_turn(prompt_ids, *args, **kwargs):
        call = next(calls)
        return [completion(call, place) for place in range(len(prompt_ids))], None

    trainer._generate_single_turn = single_turn


OURS_ALONE = ("scoring/", "skipped_rows", "frac_group_zero_std", "rewards/unscored", "rewards/infinite")
TIMINGS = ("step_time", "_runtime", "_per_second", "_time")


def compared_names(theirs, ours):
    """The metrics of two logs that must be equal: all but timings and what TRL does not log, in order.

    Where rows were skipped, the entropy is that of other rows.
    """
    names = {name for name in {*ours, *theirs} if not name.removeprefix("eval_").startswith(OURS_ALONE)}
    if ours.get("skipped_rows") and "skipped_rows" not in theirs:
        names -= {"entropy", "vespo/phi_seq_mean"}
    return sorted(name for name in names if not name.endswith(TIMINGS))


def differences(theirs, ours):
    """Where the metrics of two logs differ by more than 1e-5 (relative above 0.1), or one of them lacks a name."""
    found = {}
    for name in compared_names(theirs, ours):
        one, other = theirs.get(name, "absent"), ours.get(name, "absent")
        if isinstance(one, str) or isinstance(other, str) or one is None or other is None:
            if one != other:
                found[name] = (one, other)
        elif abs(one - other) > 1e-5 * max(abs(one), 0.1):
            found[name] = (one, other)
    return found
