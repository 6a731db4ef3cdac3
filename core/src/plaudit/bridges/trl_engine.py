"""`engine = "trl"`: the same run file, the same rewards, trained by TRL's GRPOTrainer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError
from plaudit.scoring.spec import RewardSpec

from .trl import TRLReward


def check_engine(config: Any, rewards: Sequence[RewardSpec]) -> None:
    """Raise UsageError on what TRL's trainer cannot do, before a model is loaded.

    config: the run's GRPOConfig. TRL must be installed.
    """
    try:
        from trl import GRPOConfig as TRLConfig
    except ImportError as error:
        raise UsageError(f'engine = "trl" needs TRL: pip install "trl>=1.16" ({error})') from error
    theirs = {field.name for field in dataclasses.fields(TRLConfig)}
    for field in dataclasses.fields(type(config)):
        default = field.default if field.default is not dataclasses.MISSING else None
        if field.init and field.name not in theirs and getattr(config, field.name) not in (default, None):
            raise UsageError(f'config.{field.name} is a field of this engine alone; drop it, or engine = "trl"')
    for spec in rewards:
        if not isinstance(spec.weight, (int, float)):
            raise UsageError(f"reward '{spec.name}' has a weight schedule, which TRL's trainer cannot follow")
        if spec.after is not None:
            raise UsageError(f"reward '{spec.name}' waits for another (after), which TRL's trainer cannot do")


def trl_config(config: Any, asked: Mapping[str, Any], rewards: Sequence[RewardSpec]) -> Any:
    """TRL's GRPOConfig for a run. `asked`: the fields that the run file sets; `config`: what they came to.

    The two defaults in which this engine differs, bf16 and gradient checkpointing, stay as they are here.
    """
    from trl import GRPOConfig as TRLConfig

    given = {**asked, "bf16": config.bf16, "gradient_checkpointing": config.gradient_checkpointing}
    return TRLConfig(**given, reward_weights=[float(spec.weight) for spec in rewards])  # type: ignore[arg-type]


def build_trl_trainer(
    *,
    model: str,
    rewards: Sequence[RewardSpec],
    config: Any,
    asked: Mapping[str, Any],
    train: Sequence[Mapping[str, Any]],
    heldout: Sequence[Mapping[str, Any]],
    tokenizer: Any,
    peft_config: Any,
    callbacks: Sequence[Any],
) -> Any:
    """TRL's trainer of a run, with `generate_completions` and metrics.jsonl as this engine's has them."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOTrainer as Theirs

    from plaudit.grpo.reporting.run_log import RunLog

    class Trainer(Theirs):
        """TRL's trainer, with what a run here needs besides."""

        def generate_completions(
            self, rows: Sequence[Mapping[str, Any]], *, num_generations: int = 1, temperature: float | None = None
        ) -> list[dict[str, Any]]:
            """Generate with the policy as it is and score; nothing is updated."""
            return _generate(self, config, rewards, rows, num_generations, temperature)

    class Metrics(TrainerCallback):
        """Writes metrics.jsonl."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            metrics = Path(args.output_dir) / "metrics.jsonl"
            RunLog(metrics, None, main=state.is_world_process_zero).flush(logs or {}, "train", state.global_step)

    return Trainer(
        model=model,
        reward_funcs=[TRLReward(spec, {}) for spec in rewards],
        args=trl_config(config, asked, rewards),
        train_dataset=Dataset.from_list([dict(row) for row in train]),
        eval_dataset=Dataset.from_list([dict(row) for row in heldout]) if heldout else None,
        processing_class=tokenizer,
        peft_config=peft_config,
        callbacks=[*callbacks, Metrics()],
    )


def _generate(
    trainer: Any,
    config: Any,
    rewards: Sequence[RewardSpec],
    rows: Sequence[Mapping[str, Any]],
    num_generations: int,
    temperature: float | None,
) -> list[dict[str, Any]]:
    from plaudit.grpo.assembly import sampling_options
    from plaudit.grpo.generating.alone import scored_completions

    sampling = sampling_options(config)
    return scored_completions(
        trainer.accelerator.unwrap_model(trainer.model),
        trainer.processing_class,
        rewards,
        rows,
        sampling if temperature is None else dataclasses.replace(sampling, temperature=temperature),
        num_generations=num_generations,
        template=config.chat_template_kwargs or {},
        at_once=config.per_device_train_batch_size * config.steps_per_generation,
        trainer_state=trainer.state,
    )
