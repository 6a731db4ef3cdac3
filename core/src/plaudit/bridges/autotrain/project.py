"""A run by AITraining's parameters, from the environment to the saved model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from plaudit.errors import PlauditError, UsageError

from .configuring import make_adapter, make_config, make_quantization, said_by_flags, training_processes
from .environment import build_rows, episode_columns, load_environment, with_tools
from .params import LLMTrainingParams


@dataclass(kw_only=True, slots=True)
class AutoTrainProject:
    """A project on this machine. `process`: there is no data to process here, as the environment makes its own.

    Raises UsageError on a backend that is not local.
    """

    params: LLMTrainingParams
    backend: str = "local"
    process: bool = False

    def __post_init__(self) -> None:
        """Check the backend."""
        if not self.backend.startswith("local"):
            raise UsageError(f"backend is {self.backend!r}; this interface trains on this machine: backend='local'")

    def create(self) -> str:
        """Train, on every GPU that is left for training. Returns the folder that holds the model.

        Raises PlauditError on anything wrong with the run, before the model loads where that is possible.
        """
        count = training_processes(self.params, _visible_gpus())
        if count > 1 and "RANK" not in os.environ:
            _launch(self.params, count)
        else:
            train(self.params)
        return self.params.project_name


def train(params: LLMTrainingParams) -> Any:
    """Train in this process and save; returns the trainer."""
    from rich.console import Console

    from plaudit.run.launch import quiet_libraries
    from plaudit.run.preflight import is_main_process
    from plaudit.run.progress import ProgressDisplay

    console = Console(quiet=not is_main_process(), soft_wrap=True)
    environment = load_environment(params.rl_env_module or "", params.rl_env_class or "", params.env_config())
    with quiet_libraries():
        try:
            trainer = build_trainer(params, environment)
            progress = ProgressDisplay(["score_episode"], console)
            trainer.add_callback(progress)
            try:
                trainer.train(resume_from_checkpoint=_checkpoint(params))
            finally:
                progress.close()
            _save(trainer, params)
        finally:
            close = getattr(environment, "close", None)
            if callable(close):
                close()
    console.print(f"model       {params.project_name}", highlight=False)
    return trainer


def build_trainer(params: LLMTrainingParams, environment: Any) -> Any:
    """The GRPOTrainer of a run, whose one reward is the environment's score_episode."""
    from transformers.trainer_callback import PrinterCallback

    from plaudit.grpo.trainer import GRPOTrainer
    from plaudit.run.model_files import find_model
    from plaudit.run.schema import ModelSection

    from .episodes import Episodes

    config = make_config(params)
    files = find_model(ModelSection(path=params.model))
    rows, tools = with_tools(build_rows(environment, files.tokenizer, params.max_samples), environment, files.tokenizer)
    if tools:
        config.chat_template_kwargs = {"tools": tools}
    episodes = Episodes(environment, files.tokenizer, episode_columns(environment, rows[0].keys()))
    with said_by_flags():
        trainer = GRPOTrainer(
            model=files.path,
            reward_funcs=[episodes.spec()],
            args=config,
            train_dataset=rows,
            processing_class=files.tokenizer,
            peft_config=make_adapter(params),
            quantization_config=make_quantization(params),
        )
    episodes.attach(trainer)
    trainer.remove_callback(PrinterCallback)
    return trainer


def command_line(params: LLMTrainingParams) -> list[str]:
    """The flags of `plaudit train` that say the same as `params`, all but the token."""
    import json

    words: list[str] = []
    for one in fields(params):
        value = getattr(params, one.name)
        if value == one.default or one.name == "token":  # other users of the machine see command lines
            continue
        text = json.dumps(dict(value)) if one.name == "rl_env_config" and not isinstance(value, str) else str(value)
        words += ["--" + one.name.replace("_", "-"), text]
    return words


def _launch(params: LLMTrainingParams, count: int) -> None:
    """The same run on `count` processes, on the first GPUs that are visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(_visible_gpus())))
    devices: Sequence[str] = visible.split(",")[:count]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(count), "-m", "plaudit", "train"]
    given = {"CUDA_VISIBLE_DEVICES": ",".join(devices), **({"HF_TOKEN": params.token} if params.token else {})}
    ended = subprocess.run([*command, *command_line(params)], env={**os.environ, **given}, check=False)
    if ended.returncode:
        raise PlauditError(f"training on {count} processes ended with exit status {ended.returncode}; see above")


def _visible_gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _checkpoint(params: LLMTrainingParams) -> Any:
    if params.resume_from_checkpoint == "auto":
        return any(Path(params.project_name).glob("checkpoint-*")) or None
    return params.resume_from_checkpoint


def _save(trainer: Any, params: LLMTrainingParams) -> None:
    """The model and its tokenizer in the project's folder; an adapter merged into the model unless told otherwise."""
    trainer.save_model(params.project_name)
    if params.peft and params.merge_adapter and trainer.accelerator.is_main_process:
        merged = trainer.accelerator.unwrap_model(trainer.model).merge_and_unload()
        for file in Path(params.project_name).glob("adapter_*"):
            file.unlink()
        merged.save_pretrained(params.project_name)
    if params.push_to_hub:
        trainer.push_to_hub()
