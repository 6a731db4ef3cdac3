"""Train on a Ray cluster: `python ray_train.py RUN.toml WORKERS [KEY=VALUE …]`, with `pip install 'ray[train]'`.

One worker a GPU, or CPU workers where the cluster has no GPU. The run file and its output_dir must lie where every
node sees them.
"""

from __future__ import annotations

import sys
from typing import Any


def train(settings: dict[str, Any]) -> None:
    """What each worker does: Ray has set rank and world size, the rest is a run as ever."""
    from plaudit.run.launch import Launch, launch
    from plaudit.run.runfile import load_run_file

    launch(load_run_file(settings["run_file"], settings["assignments"]), Launch(overwrite=settings["overwrite"]))


def main(run_file: str, workers: int, assignments: list[str]) -> None:
    """Start the workers and wait for them."""
    import ray
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    ray.init()
    gpu = ray.cluster_resources().get("GPU", 0) >= workers
    settings = {"run_file": run_file, "assignments": assignments, "overwrite": False}
    TorchTrainer(
        train, train_loop_config=settings, scaling_config=ScalingConfig(num_workers=workers, use_gpu=gpu)
    ).fit()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
