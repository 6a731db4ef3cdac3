"""The trainer of a prepared run, of the engine that it names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plaudit.run.preflight import Prepared


def build_trainer(prepared: Prepared, callbacks: Sequence[Any]) -> Any:
    """The trainer of a run, of the engine that it names; loads the model."""
    from transformers.trainer_callback import PrinterCallback

    trainer = _trl_trainer(prepared, callbacks) if prepared.run.engine == "trl" else _own_trainer(prepared, callbacks)
    # It would print every log as a dictionary, between the lines of our own display.
    trainer.remove_callback(PrinterCallback)
    return trainer


def _own_trainer(prepared: Prepared, callbacks: Sequence[Any]) -> Any:
    from plaudit.grpo.trainer import GRPOTrainer

    return GRPOTrainer(
        model=prepared.model.path,
        reward_funcs=list(prepared.rewards),
        args=prepared.config,
        train_dataset=list(prepared.train) if prepared.stream is None else prepared.stream,
        eval_dataset=list(prepared.heldout) or None,
        processing_class=prepared.model.processing_class,
        peft_config=prepared.peft_config,
        callbacks=list(callbacks),
        environment_factory=prepared.agents,
    )


def _trl_trainer(prepared: Prepared, callbacks: Sequence[Any]) -> Any:
    from plaudit.bridges.trl_engine import TRLRun, build_trl_trainer
    from plaudit.run.configuring import config_values

    return build_trl_trainer(
        TRLRun(
            model=prepared.model.path,
            rewards=prepared.rewards,
            config=prepared.config,
            asked={**config_values(prepared.run), "output_dir": prepared.config.output_dir},
            train=prepared.train,
            heldout=prepared.heldout,
            processing_class=prepared.model.processing_class,
            peft_config=prepared.peft_config,
            agents=prepared.agents,
            callbacks=callbacks,
        )
    )
