"""One rank of a run with colocated engines; rank 0 writes what came of it as JSON. See test_ranks.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset
from plaudit.grpo import GRPOConfig, GRPOTrainer
from vllm_models import make_model, make_tokenizer


def digits(completions, **columns):
    return [sum(character.isdigit() for character in text) / 4 for text in completions]


def main() -> None:
    folder, tensor_parallel = Path(sys.argv[1]), int(sys.argv[2])
    args = GRPOConfig(
        output_dir=str(folder / "run"),
        use_cpu=True,
        use_vllm=True,
        vllm_gpu_memory_utilization=0.05,
        vllm_tensor_parallel_size=tensor_parallel,
        num_generations=4,
        per_device_train_batch_size=4,
        max_completion_length=8,
        learning_rate=3e-3,
        max_steps=3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    rows = Dataset.from_list([{"prompt": f"{a}+{b}="} for a in range(4) for b in range(4)])
    trainer = GRPOTrainer(make_model(), digits, args, rows, processing_class=make_tokenizer())
    written = []
    writer = trainer.source.collector.writer
    generate = writer.generator.generate

    def watched(requests, sampling):
        for made in generate(requests, sampling):
            written.append([made.index, list(made.completion_ids)])
            yield made

    writer.generator.generate = watched
    trainer.train()
    weights = torch.cat([weight.detach().flatten() for weight in trainer.model.parameters()])
    everyone = [torch.empty_like(weights) for _ in range(args.world_size)]
    torch.distributed.all_gather(everyone, weights)
    texts = [None] * args.world_size
    torch.distributed.all_gather_object(texts, written)
    writer.close()
    torch.distributed.barrier()  # the group of the run outlives the engine
    if trainer.accelerator.is_main_process:
        logs = [entry for entry in trainer.state.log_history if "loss" in entry]
        same = all(torch.equal(weights, other) for other in everyone)
        (folder / "found.json").write_text(json.dumps({"logs": logs, "same_weights": same, "written": texts}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
