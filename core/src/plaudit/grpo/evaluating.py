"""Evaluation and previews: rollouts that nothing is learnt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, SequentialSampler

from ..errors import UsageError
from .generating.preview import preview
from .recording import RecordingTrainer
from .rows.evaluation import evaluation_rows, random_state_kept
from .source import RolloutSource


class EvaluatingTrainer(RecordingTrainer):
    """A Trainer whose evaluation generates and scores: every held-out row counts once, on any number of ranks."""

    source: RolloutSource

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        """Rows of the evaluation dataset, each `num_generations_eval` times in a row."""
        rows = self.eval_dataset[eval_dataset] if isinstance(eval_dataset, str) else eval_dataset or self.eval_dataset
        if rows is None:
            raise UsageError("there is no eval_dataset; give one to the trainer or to evaluate()")
        return super().get_eval_dataloader(evaluation_rows(rows, self.args))

    def _get_eval_sampler(self, eval_dataset: Any) -> SequentialSampler:
        return SequentialSampler(eval_dataset)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Generate for every row of the evaluation dataset; metrics under `metric_key_prefix`.

        They are means over the rows of all batches, also where the last is smaller.
        """
        mode, prefix = self._mode, self._eval_prefix
        self._mode, self._eval_prefix = "eval", metric_key_prefix
        try:
            with random_state_kept(self.args.device):
                return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        finally:
            self._mode, self._eval_prefix = mode, prefix

    def prediction_step(
        self, model: nn.Module, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[torch.Tensor, None, None]:
        """The loss of one evaluation batch, over the rows of all ranks."""
        batch = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            loss = self.compute_loss(model, batch).mean().detach()
        loss = self.world.gather((loss * batch.share).view(1)).sum()
        # The Trainer's own mean counts fillers, so this one takes its place.
        self.windows["eval"].add({"loss": loss.item()}, self.batch_weight)
        return loss, None, None

    def generate_completions(
        self, rows: Sequence[Mapping[str, Any]], *, num_generations: int = 1, temperature: float | None = None
    ) -> list[dict[str, Any]]:
        """Generate and score without an update: one record a completion, see `preview`. Each rank does all the rows."""
        at_once = self.args.per_device_train_batch_size * self.args.steps_per_generation
        self.source.settle()
        with random_state_kept(self.args.device):
            return preview(self.source.collector, rows, num_generations, temperature, at_once, self.state)
