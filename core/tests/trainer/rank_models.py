"""What one rank of `test_rank_models.py` runs: `python rank_models.py OUTPUT`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from seeing import make_seeing, rows
from test_moe import make_experts
from test_reward_models import make_classifier
from tiny_policy import make_tokenizer

from runs import make_trainer

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
BOTH = {"per_device_train_batch_size": 4, "max_steps": 3}


def letters(completions, **columns):
    """Varies, but not on the first rank of two in the first step."""
    return [float(len(completion[0]["content"]) % 3) * (RANK > 0) for completion in completions]


def keep(trainer, output: Path, name: str) -> None:
    """The weights of this rank, and of the reference that moves."""
    moving = trainer.moving_reference
    reference = {} if moving is None else moving.model.state_dict()
    torch.save({"policy": trainer.model.state_dict(), "reference": reference}, output / f"{name}_{RANK}.pt")


def images(output: Path) -> None:
    """Rows with and without images, so that a rank may see none."""
    text = [{"prompt": [{"role": "user", "content": f"and {n}?"}], "image": None, "answer": str(n)} for n in range(3)]
    model, processor = make_seeing("Qwen2-VL")
    trainer = make_trainer(
        output / "images", letters, model=model, tokenizer=processor, rows=[*rows(2), *text], num_iterations=2, **BOTH
    )
    trainer.train()
    keep(trainer, output, "images")


def experts(output: Path) -> None:
    """A load-balancing loss, a reward model, and a reference that follows."""
    trainer = make_trainer(
        output / "experts",
        make_classifier(),
        reward_processing_classes=make_tokenizer(),
        model=make_experts(),
        router_aux_loss_coef=0.1,
        beta=0.1,
        sync_ref_model=True,
        ref_model_sync_steps=1,
        save_strategy="steps",
        save_steps=2,
        **BOTH,
    )
    trainer.train()
    keep(trainer, output, "experts")
    again = make_trainer(
        output / "experts",
        make_classifier(),
        reward_processing_classes=make_tokenizer(),
        model=make_experts(),
        router_aux_loss_coef=0.1,
        beta=0.1,
        sync_ref_model=True,
        ref_model_sync_steps=1,
        **BOTH,
    )
    again.train(str(output / "experts" / "checkpoint-2"))
    keep(again, output, "resumed")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    images(folder)
    experts(folder)
