"""What one rank of a distributed test runs: `python rank_main.py OUTPUT`. Rank and world come from the environment."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import torch
from plaudit import reward
from plaudit.errors import PlauditError, UsageError
from plaudit.grpo.forward import packing
from plaudit.rollout.protocol import Generated
from plaudit.scoring.spec import reward_specs
from side_by_side import in_order, run_plaudit, use_generator
from tiny_policy import make_model, make_tokenizer

from runs import ROWS, make_trainer

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
CASES = {
    "dapo": {"loss_type": "dapo", "log_completions": True, "num_completions_to_print": 0},
    "grpo-reference": {"gradient_accumulation_steps": 2, "loss_type": "grpo", "beta": 0.05},
    "groups-across-ranks": {"num_generations": 8, "num_iterations": 2},
}


def pack_always() -> None:
    """These micro-batches are too small for packing to pay; here it is to be seen under DDP all the same."""
    packing.BLOCK_COST, packing.LEAST_SAVING = 0, 0.0


def compare(case: str, output: Path, **more) -> None:
    """Train and save logs, evaluation and weights of this rank."""
    size = 8 // WORLD
    output.mkdir(parents=True, exist_ok=True)
    result = run_plaudit(
        make_model(dtype=torch.float64),
        make_tokenizer(),
        output / case,
        evaluate=True,
        max_steps=3,
        per_device_train_batch_size=size,
        per_device_eval_batch_size=size,
        **{**CASES[case], **more},
    )
    kept = {"logs": result.logs, "evaluation": result.evaluation, "weights": result.weights}
    torch.save(kept, output / f"{case}_{RANK}.pt")


def logging(output: Path) -> None:
    """Only the last rank logs a column and a metric."""

    def some(completions, log_extra, log_metric, **kwargs):
        if RANK == WORLD - 1:
            log_extra("note", [f"rank {RANK}"] * len(completions))
            log_metric("noted", 3.0)
        return [0.0 for _ in completions]

    options = {"per_device_train_batch_size": 4, "log_completions": True, "num_completions_to_print": 0}
    make_trainer(output / "logging", some, **options).train()


def idle(output: Path) -> None:
    """In no group of the first rank is there any spread, so it runs on a token where the last runs on its rows."""

    def varied(completions, **kwargs):
        return [float(place % 2) if RANK == WORLD - 1 else 0.0 for place in range(len(completions))]

    trainer = make_trainer(output / "idle", varied, per_device_train_batch_size=4)
    shapes: list[tuple[int, ...]] = []
    trainer.model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    trainer.train()
    # Generation calls the model as well, without the head's stand-in; training calls it with whole rows or a token.
    kept = {"weights": {name: value.detach() for name, value in trainer.model.named_parameters()}, "shapes": shapes}
    torch.save(kept, output / f"idle_{RANK}.pt")


def raising(output: Path) -> None:
    """A reward, then a generator, that raises on the last rank only."""

    def bad(completions, **kwargs):
        if RANK == WORLD - 1:
            raise KeyError("lost")
        return [0.0 for _ in completions]

    specs = [replace(spec, on_error="raise") for spec in reward_specs([bad])]
    found = [message_of(make_trainer(output, specs, per_device_train_batch_size=4))]
    trainer = make_trainer(output, per_device_train_batch_size=4)
    if RANK == WORLD - 1:
        use_generator(trainer, None)
    found.append(message_of(trainer))
    found.append(spanning_groups(output))
    (output / f"errors_{RANK}.json").write_text(json.dumps(found))


def spanning_groups(output: Path) -> str:
    """What a reward of whole groups says when a group spans both ranks."""

    @reward(granularity="group")
    def spread(completions, **kwargs):
        return [0.0 for _ in completions]

    try:
        make_trainer(output, spread, per_device_train_batch_size=4, num_generations=8)
    except UsageError as error:
        return str(error)
    return "it was accepted"


def message_of(trainer) -> str:
    """What a training that must fail says."""
    try:
        trainer.train()
    except (PlauditError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return "it did not fail"


class ByPlace:
    """Writes what the prompt and the place in its group say, whichever rank asks."""

    exact = False

    def __init__(self, first):
        self.first = first

    def generate(self, requests, sampling):
        place = {}
        for request in requests:
            place[request.prompt_ids] = nth = place.get(request.prompt_ids, self.first - 1) + 1
            ids = (*((sum(request.prompt_ids) + nth * step) % 30 + 5 for step in range(3)), 1)
            yield Generated(request.index, ids, (0.0,) * 4, "stop")

    def refresh(self, step):
        """It knows no weights."""

    def close(self):
        """It holds nothing."""


def dull(prompts, completion_ids, log_extra, **kwargs):
    """Differs in the groups of some prompts only."""
    log_extra("copy", list(prompts))
    return [0.0 if prompt[0] in "02" else ids[1] / 10 for prompt, ids in zip(prompts, completion_ids, strict=True)]


def dynamic(output: Path, generations: int) -> None:
    """Train with dynamic sampling; groups of 16 span both ranks."""
    options = {
        "dynamic_sampling": True,
        "num_generations": generations,
        "per_device_train_batch_size": 16 // WORLD,
        "max_steps": 4,
        "log_completions": True,
        "num_completions_to_print": 0,
        "vllm_importance_sampling_correction": False,
    }
    model = make_model(dtype=torch.float64)
    trainer = make_trainer(output / f"dynamic-{generations}", dull, rows=ROWS[:12], model=model, **options)
    use_generator(trainer, ByPlace(RANK * generations // WORLD if generations == 16 else 0))
    with mock.patch("torch.randperm", in_order):
        trainer.train()
    kept = {"weights": trainer.model.state_dict(), "starts": trainer.source.dynamic.starts}
    torch.save(kept, output / f"dynamic-{generations}_{RANK}.pt")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    pack_always()
    folder.mkdir(parents=True, exist_ok=True)
    for generations in (4, 16):
        dynamic(folder, generations)
    for name in CASES:
        compare(name, folder)
    logging(folder)
    idle(folder)
    raising(folder)
