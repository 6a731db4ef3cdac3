"""One rank of a run with vLLM servers: `python served_main.py OUTPUT URL STALENESS [sharded]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from many_ranks_main import _allow_fsdp_on_cpu
from plaudit.grpo.generating.sharding import whole_weights
from plaudit.grpo.ranks import Ranks
from side_by_side import whole

from runs import make_trainer

LAYERS = {"transformer_layer_cls_to_wrap": ["Qwen3DecoderLayer"], "auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}
SHARDED = {"fsdp": True, "fsdp_config": {"version": 2, **LAYERS}}


def main(output: Path, url: str, staleness: int, *, sharded: bool) -> None:
    """Train three steps and save this rank's weights."""
    if sharded:
        _allow_fsdp_on_cpu()
    trainer = make_trainer(
        output / "run", max_steps=3, per_device_train_batch_size=4, use_vllm=True, vllm_mode="server",
        vllm_server_base_url=url, vllm_group_port=0, vllm_server_timeout=60, max_staleness=staleness,
        vllm_importance_sampling_mode="token_truncate", learning_rate=0.01, **(SHARDED if sharded else {}),
    )  # fmt: skip
    trainer.train()
    with whole_weights(trainer.model, Ranks(trainer.accelerator)):
        weights = [whole(weight).detach().clone() for weight in trainer.model.parameters()]
    torch.save(weights, output / f"weights_{os.environ['RANK']}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sharded=sys.argv[4:] == ["sharded"])
