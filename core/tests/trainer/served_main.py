"""One rank of a run with vLLM servers: `python served_main.py OUTPUT URL STALENESS`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch

from runs import make_trainer


def main(output: Path, url: str, staleness: int) -> None:
    """Train three steps and save this rank's weights."""
    trainer = make_trainer(
        output / "run", max_steps=3, per_device_train_batch_size=4, use_vllm=True, vllm_mode="server",
        vllm_server_base_url=url, vllm_group_port=0, vllm_server_timeout=60, max_staleness=staleness,
        vllm_importance_sampling_mode="token_truncate", learning_rate=0.01,
    )  # fmt: skip
    trainer.train()
    torch.save([weight.detach() for weight in trainer.model.parameters()], output / f"weights_{os.environ['RANK']}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
