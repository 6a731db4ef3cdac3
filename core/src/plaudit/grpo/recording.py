"""What a trainer logs and keeps: metrics, completions tables, checkpoints, the model card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers.trainer_utils import TrainOutput, rotate_checkpoints

from .advantages import reward_metrics
from .collected import Collected
from .entropy import EntropyController
from .metrics import MetricWindow
from .policy.moving_reference import MovingReference
from .records import LossOptions
from .reporting.hooking import announce_scores, metrics_of_hooks
from .reporting.profiling import report_times
from .reporting.rollout_metrics import collected_metrics
from .reporting.run_log import RunLog
from .saving import checkpoints
from .saving.publishing import PublishingTrainer
from .saving.renamed_weights import load_renamed
from .saving.resuming import checkpoint_to_resume
from .world import World
from .writing import Mode


class RecordingTrainer(PublishingTrainer):
    """A Trainer whose logs hold the metrics of rollouts and loss, and whose checkpoints hold the source's state."""

    world: World
    entropy: EntropyController
    loss_options: LossOptions
    moving_reference: MovingReference | None
    # While a checkpoint is written: where, and this rank's own state, taken before.
    staging: str | None = None
    own_state: dict[str, Any]

    def start_recording(self) -> None:
        """Empty windows; call it when the accelerator is there."""
        self.windows: dict[Mode, MetricWindow] = {"train": MetricWindow(), "eval": MetricWindow()}
        self.run_log = RunLog.of(self.args, main=self.accelerator.is_main_process)
        self._mode: Mode = "train"
        self._eval_prefix = "eval"
        self._step_seconds = 0.0
        self._evaluated = 0
        self._unfinished_loss: dict[str, Any] | None = None
        report_times(self, "_prepare_inputs", "compute_loss")

    def record_collected(self, collected: Collected, mode: Mode) -> None:
        window = self.windows[mode]
        if mode == "eval":
            self._evaluated = collected.total
        window.add(collected_metrics(collected), self.batch_weight)
        window.add(reward_metrics(collected.advantages, collected.names), self.batch_weight)
        if mode == "train":
            self.state.num_input_tokens_seen += collected.num_tokens
        window.put("num_tokens", self.state.num_input_tokens_seen)
        self.run_log.add(collected, mode, self.state.global_step)
        announce_scores(collected, mode, self.state.global_step)

    @property
    def batch_weight(self) -> float:
        """Of the batch at hand in the means of a window: training's are alike, evaluation's last may be smaller."""
        return float(self._evaluated) if self._mode == "eval" else 1.0

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        """Add the metrics of the window that ends here, and write table and metrics.jsonl."""
        prefix = "" if self._mode == "train" else f"{self._eval_prefix}_"
        if self._mode == "train" and self.loss_options.entropy_bonus:
            self.windows["train"].put("entropy_coef", self.entropy.value)
        logs.update({f"{prefix}{name}": value for name, value in self.windows[self._mode].drain(self.world).items()})
        logs.update(metrics_of_hooks(logs, self._mode, self.state.global_step))
        if "train_loss" in logs:
            self.restore_unfinished_loss()
            logs["train_loss"] = self._total_loss_scalar / max(self.state.global_step, 1)
        super().log(logs, start_time)
        self.run_log.flush(logs, self._mode, self.state.global_step)

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Train from the first row, or from where a checkpoint stopped (True = the last whole one in output_dir)."""
        checkpoint = checkpoint_to_resume(self, resume_from_checkpoint)
        self.source.restart()
        try:
            with self.source.collector.ranks.guarded():
                result = super().train(checkpoint, trial, ignore_keys_for_eval)
        finally:
            self.source.collector.writer.rest()
        # The Trainer's own is the mean since a resume.
        return result._replace(training_loss=result.metrics["train_loss"])

    def restore_unfinished_loss(self) -> None:
        """Before the first step after a resume: what the run that stopped had summed."""
        if self._unfinished_loss is not None:
            checkpoints.restore_loss(self, self._unfinished_loss)
            self._unfinished_loss = None

    def _get_output_dir(self, trial: Any) -> str:
        return self.staging or super()._get_output_dir(trial)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self._get_output_dir(trial))
        write = super()._save_checkpoint
        checkpoints.save(self, folder, lambda: write(model, trial))
        if self.args.push_to_hub:
            self._push_from_checkpoint(str(folder / f"checkpoint-{self.state.global_step}"))
        if self.args.should_save:
            rotate_checkpoints(str(folder), self.args.save_total_limit, self.state.best_model_checkpoint)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        # Only a checkpoint in its place is uploaded, for uploads go on in the background.
        if self.staging is None:
            super()._push_from_checkpoint(checkpoint_folder)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        checkpoints.write_state(self, Path(output_dir))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        plain = not (self.is_fsdp_enabled or self.is_deepspeed_enabled)
        if not (plain and load_renamed(model or self.model, Path(resume_from_checkpoint))):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        plain = not (self.is_fsdp_enabled or self.is_deepspeed_enabled)
        if not (plain and load_renamed(self.model, Path(self.state.best_model_checkpoint))):
            super()._load_best_model()

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._unfinished_loss = checkpoints.load(self, Path(checkpoint))
