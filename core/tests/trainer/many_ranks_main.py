"""What one rank of a distributed test runs: `python many_ranks_main.py OUTPUT PART…`.

Rank and world come from the environment. Each part leaves `OUTPUT/PART_RANK.json`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from datasets import Dataset
from plaudit.grpo.generating.sharding import whole_weights
from plaudit.grpo.ranks import Ranks
from rank_main import CASES, RANK, WORLD, compare, message_of
from side_by_side import whole

from runs import ROWS, make_trainer


def slow(output: Path) -> list[float]:
    """The rewards of one rank take their time."""

    def waiting(completions, **kwargs):
        time.sleep(2 * RANK)
        return [float(len(text)) for text in completions]

    trainer = make_trainer(output / "slow", waiting, per_device_train_batch_size=4)
    trainer.train()
    return [line["reward"] for line in trainer.state.log_history[:2]]


def streaming(output: Path) -> list[list[str]]:
    """Which rows each rank takes of a stream, batch by batch."""
    stream = Dataset.from_list(ROWS[:9]).to_iterable_dataset()
    trainer = make_trainer(output / "streaming", rows=stream, per_device_train_batch_size=8 // WORLD, max_steps=6)
    seen, collected = [], trainer.source.collected

    def note(batch, mode):
        seen.append([rollout.row.prompt for rollout in batch.rollouts])
        collected(batch, mode)

    trainer.source.collected = note
    trainer.train()
    return seen


def resuming(output: Path) -> list[bool]:
    """Whether a run from a checkpoint in the middle of a generation cycle ends as one that was not stopped."""
    cycle = {"per_device_train_batch_size": 4, "steps_per_generation": 2, "num_iterations": 2, "max_steps": 6}
    return _resumed(output / "resuming", 3, **cycle)[0]


def failing_save(output: Path) -> str:
    """The first rank cannot write its checkpoint."""

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    trainer = make_trainer(output / "full", per_device_train_batch_size=4, save_strategy="steps", save_steps=1)
    if RANK == 0:
        trainer.model.save_pretrained = full
    return message_of(trainer)


def failing_loss(output: Path) -> str:
    """The loss of the last rank raises, while the others wait in the backward pass. The process must end then."""

    def failing(*args, **kwargs):
        raise AttributeError("the loss was lost")

    trainer = make_trainer(output / "loss", per_device_train_batch_size=4)
    if RANK == WORLD - 1:
        trainer.compute_loss = failing
    return message_of(trainer)


def sharded(output: Path) -> dict:
    """FSDP2, which accelerate turns on for accelerators only: here it is told that it may."""
    _allow_fsdp_on_cpu()
    layers = {"transformer_layer_cls_to_wrap": ["Qwen3DecoderLayer"], "auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}
    fsdp = {"fsdp": True, "fsdp_config": {"version": 2, **layers}}
    compare("grpo-reference", output, **fsdp)
    same, trainer = _resumed(output / "fsdp", 2, max_steps=3, per_device_train_batch_size=4, **fsdp)
    # Without gathering, ranks whose completions end earlier run along until all have ended.
    together = make_trainer(output / "step", per_device_train_batch_size=4, ds3_gather_for_generation=False, **fsdp)
    together.train()
    return {
        "in step": [line["reward"] for line in together.state.log_history[:2]],
        "kind": type(trainer.model_wrapped).__name__,
        "same": same,
        "evaluated": trainer.evaluate()["eval_reward"],
        "previewed": len(trainer.generate_completions(ROWS[:1], num_generations=2)),
    }


def plain(output: Path, **more) -> list[list[float]]:
    """Losses, gradient norms and rewards of a short run."""
    options = {"per_device_train_batch_size": 4, "max_steps": 3, "beta": 0.1, "optim": "adamw_torch", **more}
    trainer = make_trainer(output / "plain", **options)
    trainer.train()
    return [[line["loss"], line["grad_norm"], line["reward"]] for line in trainer.state.log_history if "loss" in line]


def zero3(output: Path) -> list[list[float]]:
    """The same with DeepSpeed ZeRO-3."""
    return plain(output, **_zero3())


def zero3_following(output: Path) -> list[list[float]]:
    """The same with weights that stay spread while completions are written, and a reference that follows."""
    return plain(output, **_zero3(), **FOLLOWING)


def plain_following(output: Path) -> list[list[float]]:
    return plain(output, **FOLLOWING)


FOLLOWING = {"ds3_gather_for_generation": False, "sync_ref_model": True, "ref_model_sync_steps": 2}


def zero3_resumed(output: Path) -> dict:
    """A run from a checkpoint in the middle of a generation cycle, and what evaluation and previews then give."""
    cycle = {"per_device_train_batch_size": 4, "num_iterations": 2, "max_steps": 4, "optim": "adamw_torch"}
    same, trainer = _resumed(output / "zero3", 3, **cycle, **_zero3(), beta=0.1, sync_ref_model=True)
    return {
        "same": same,
        "evaluated": trainer.evaluate()["eval_reward"],
        "previewed": len(trainer.generate_completions(ROWS[:1], num_generations=2)),
    }


def _zero3() -> dict:
    import deepspeed  # noqa: F401  (loads what is changed next)

    # It would compile an operator for the processes of one machine.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    auto = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto")
    untested = {"zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    return {"deepspeed": {**auto, **untested, "zero_optimization": {"stage": 3}}}


def _resumed(folder: Path, step: int, **options):
    saving = {**options, "save_strategy": "steps", "save_steps": step, "eval_rows": ROWS[:4]}
    unstopped = make_trainer(folder, **saving)
    unstopped.train()
    resumed = make_trainer(folder, **saving)
    resumed.train(resume_from_checkpoint=str(folder / f"checkpoint-{step}"))
    pairs = zip(_weights(unstopped), _weights(resumed), strict=True)
    return [one.numel() > 0 and torch.equal(one, other) for one, other in pairs], resumed


def _weights(trainer) -> list[torch.Tensor]:
    with whole_weights(trainer.model, Ranks(trainer.accelerator)):
        return [whole(weight).clone() for weight in trainer.model.parameters()]


def _allow_fsdp_on_cpu() -> None:
    from accelerate import state
    from accelerate.utils import DistributedType

    begin = state.AcceleratorState.__init__

    def with_fsdp(self, *args, fsdp_plugin=None, **kwargs):
        begin(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None:
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin
            state.PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    state.AcceleratorState.__init__ = with_fsdp


def main(parts: dict) -> None:
    """Run the parts that the command line names, of these functions by name."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for part in sys.argv[2:]:
        if part in CASES:
            compare(part, folder)
        else:
            (folder / f"{part}_{RANK}.json").write_text(json.dumps(parts[part](folder)))


if __name__ == "__main__":
    main(globals())
    if "failing_loss" in sys.argv:
        # Its process group is broken; the others learn of it when the process is gone.
        os._exit(0)
