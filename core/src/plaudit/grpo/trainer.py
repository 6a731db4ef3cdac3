"""The GRPO trainer: sample, generate, score, advantages, loss. The parts live in modules of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, SequentialSampler
from transformers import Trainer, TrainerCallback

from ..errors import UsageError
from ..scoring.scorer import Scorer
from ..scoring.spec import reward_specs
from . import assembly, checkpoints
from .advantages import reward_metrics
from .batch import MicroBatch
from .collecting import Collected, Mode, collected_metrics
from .config import GRPOConfig
from .datasets import check_datasets
from .entropy import EntropyController
from .evaluation import EvaluationRows, generations_in_evaluation, ticks
from .hooking import StepHooks, announce_scores, metrics_of_hooks
from .logprobs import TokenScorer
from .losses import policy_loss
from .metrics import MetricWindow
from .models import add_adapter, drop_dropout, load_model, load_tokenizer
from .preview import preview
from .ranks import Ranks
from .records import LossInputs, LossOptions, LossScale
from .reference_model import Annotator
from .refusals import check_rewards, refuse_arguments
from .run_log import RunLog
from .world import World


class GRPOTrainer(Trainer):
    """Trains a causal language model with GRPO, on rewards given by name or as functions.

    The parameters are TRL's. `reward_funcs`: a name, a callable, or a list of both. Raises UsageError, before a
    model is loaded, on a dataset, reward or option that cannot work.
    """

    def __init__(
        self,
        model: str | nn.Module,
        reward_funcs: Any = None,
        args: GRPOConfig | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        reward_processing_classes: Any = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[torch.optim.Optimizer | None, torch.optim.lr_scheduler.LambdaLR | None] = (None, None),
        quantization_config: Any = None,
        peft_config: Any = None,
        tools: list[Callable[..., Any]] | None = None,
        rollout_func: Any = None,
        environment_factory: Any = None,
    ) -> None:
        args = args or GRPOConfig(output_dir=default_output_dir(model))
        refuse_arguments(
            args,
            reward_processing_classes=reward_processing_classes,
            quantization_config=quantization_config,
            tools=tools,
            rollout_func=rollout_func,
            environment_factory=environment_factory,
        )
        check_rewards(reward_funcs)
        specs = reward_specs(reward_funcs, args.reward_weights)
        check_datasets(train_dataset, eval_dataset, specs)
        set_seed(args.seed)
        options: Any = args.model_init_kwargs or {}
        policy = load_model(model, options, trust_remote_code=args.trust_remote_code)
        tokenizer = load_tokenizer(
            processing_class, policy, revision=options.get("revision"), trust_remote_code=args.trust_remote_code
        )
        if args.disable_dropout:
            drop_dropout(policy)
        assembly.resumed_adapter(args, policy, peft_config)
        super().__init__(
            model=add_adapter(policy, peft_config),
            args=args,
            data_collator=list,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=tokenizer,
            callbacks=callbacks,
            optimizers=optimizers,
        )
        ranks = Ranks(self.accelerator)
        self._assemble(Scorer(specs, reduce=ranks.total), ranks)

    def _assemble(self, scorer: Scorer, ranks: Ranks) -> None:
        args, tokenizer = self.args, self.processing_class
        # The loss is divided by the accumulation steps, or by what spans them, in `policy_loss`.
        self.loss_is_scaled_for_ga = True
        # Each rank draws its own completions.
        set_seed(args.seed, device_specific=True)
        self.world = World(self.accelerator)
        self.loss_options = LossOptions.from_config(args)
        self.entropy = EntropyController.from_config(args)
        self.token_scorer = TokenScorer(self.model, temperature=args.temperature)
        self.reference = assembly.build_reference(args, self.model, self._prepare_frozen)
        collector = assembly.build_collector(args, self.model, tokenizer, scorer, ranks)
        annotator = Annotator(
            lambda: self.model_wrapped, self.token_scorer, assembly.needs_old_logprobs(args), self.reference
        )
        self.source = assembly.build_source(
            args,
            self.train_dataset,
            collector,
            annotator,
            self._record_collected,
            pad_token_id=tokenizer.pad_token_id,
            device=args.device,
        )
        self.windows: dict[Mode, MetricWindow] = {"train": MetricWindow(), "eval": MetricWindow()}
        self.run_log = RunLog.of(args, main=self.accelerator.is_main_process)
        self.add_callback(StepHooks())
        self._mode: Mode = "train"
        self._eval_prefix = "eval"
        self._step_seconds = 0.0
        self._unfinished_loss: dict[str, Any] | None = None

    # One step: the Trainer's loop calls training_step, which asks for inputs and then for the loss.

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Forward and backward of one micro-batch, generating first when the buffer is used up."""
        began = time.perf_counter()
        if self._unfinished_loss is not None:
            checkpoints.restore_loss(self, self._unfinished_loss)
            self._unfinished_loss = None
        loss = super().training_step(model, inputs, num_items_in_batch)
        self._step_seconds += time.perf_counter() - began
        if self.accelerator.sync_gradients:
            self.entropy.step(self.world)
            self.windows["train"].add({"step_time": self._step_seconds})
            self._step_seconds = 0.0
        return loss

    def _prepare_inputs(self, inputs: Any) -> MicroBatch:
        """The next micro-batch: from the source when training, of these rows when evaluating."""
        if self._mode == "train":
            return self.source.next(self.state)
        generations = generations_in_evaluation(self.args)
        return self.source.evaluate(inputs, num_generations=generations, trainer_state=self.state)

    def compute_loss(
        self, model: nn.Module, inputs: MicroBatch, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """The loss of a micro-batch, scaled for accumulation, and its metrics."""
        if return_outputs:
            raise ValueError("GRPOTrainer has no outputs beside the loss; call compute_loss with return_outputs=False")
        options, training = self.loss_options, self._mode == "train"
        stats = self.token_scorer(model, inputs, entropies="bonus" if options.entropy_bonus else "metric")
        result = policy_loss(
            LossInputs(
                logp=stats.logprobs,
                mask=inputs.mask,
                advantages=inputs.advantages,
                old=inputs.old_logprobs,
                ref=inputs.ref_logprobs,
                entropy=stats.entropies,
            ),
            options,
            LossScale(
                items=inputs.num_items,
                max_completion_length=self.args.max_completion_length,
                accumulation=self.current_gradient_accumulation_steps if training else 1,
                steps_per_generation=self.args.steps_per_generation if training else 1,
                world_size=self.world.size,
            ),
            entropy_coef=self.entropy.coefficient,
            world=self.world,
        )
        self.windows[self._mode].add_statistics(result.statistics)
        if options.entropy_bonus and training:
            self.entropy.observe(result.entropy_sum, result.entropy_count)
        return result.loss

    def _record_collected(self, collected: Collected, mode: Mode) -> None:
        window = self.windows[mode]
        window.add(collected_metrics(collected))
        window.add(reward_metrics(collected.advantages, collected.names))
        if mode == "train":
            self.state.num_input_tokens_seen += collected.num_tokens
        window.put("num_tokens", self.state.num_input_tokens_seen)
        self.run_log.add(collected, mode, self.state.global_step)
        announce_scores(collected, mode, self.state.global_step)

    # Data: training rows are drawn by the source, so its loader only counts micro-batches.

    def get_train_dataloader(self) -> DataLoader:
        """One tick a micro-batch, as many as the dataset gives in an epoch."""
        self.source.restart()
        rollouts = self.args.per_device_train_batch_size * self.world.size
        return ticks(self.source.micro_batches_per_epoch, rollouts=rollouts)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        """Rows of the evaluation dataset, each `num_generations_eval` times in a row."""
        rows = self.eval_dataset[eval_dataset] if isinstance(eval_dataset, str) else eval_dataset or self.eval_dataset
        if rows is None:
            raise UsageError("there is no eval_dataset; give one to the trainer or to evaluate()")
        return super().get_eval_dataloader(EvaluationRows(rows, self.args))

    def _get_eval_sampler(self, eval_dataset: Any) -> SequentialSampler:
        return SequentialSampler(eval_dataset)

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["prompt"]

    # Evaluation

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Generate for every row of the evaluation dataset; metrics under `metric_key_prefix`."""
        mode, prefix = self._mode, self._eval_prefix
        self._mode, self._eval_prefix = "eval", metric_key_prefix
        try:
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        finally:
            self._mode, self._eval_prefix = mode, prefix

    def prediction_step(
        self, model: nn.Module, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[torch.Tensor, None, None]:
        """The loss of one evaluation batch."""
        batch = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            return self.compute_loss(model, batch).mean().detach(), None, None

    def generate_completions(
        self, rows: Sequence[Mapping[str, Any]], *, num_generations: int = 1, temperature: float | None = None
    ) -> list[dict[str, Any]]:
        """Generate and score without an update: one record a completion, see `preview`. Each rank does all the rows."""
        return preview(
            self.source.collector,
            rows,
            num_generations=num_generations,
            temperature=temperature,
            at_once=self.args.per_device_train_batch_size * self.args.steps_per_generation,
            trainer_state=self.state,
        )

    # What is logged and kept

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        """Add the metrics of the window that ends here, and write table and metrics.jsonl."""
        prefix = "" if self._mode == "train" else f"{self._eval_prefix}_"
        if self._mode == "train" and self.loss_options.entropy_bonus:
            self.windows["train"].put("entropy_coef", self.entropy.value)
        logs.update({f"{prefix}{name}": value for name, value in self.windows[self._mode].drain(self.world).items()})
        logs.update(metrics_of_hooks(logs, self._mode, self.state.global_step))
        super().log(logs, start_time)
        self.run_log.flush(logs, self._mode, self.state.global_step)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        checkpoints.save(self, Path(output_dir))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._unfinished_loss = checkpoints.load(self, Path(checkpoint))

    def _prepare_frozen(self, model: nn.Module) -> nn.Module:
        return self.accelerator.prepare_model(model, evaluation_mode=True)


def default_output_dir(model: str | nn.Module) -> str:
    """Where a run goes that names no folder: after the model."""
    name = model if isinstance(model, str) else getattr(getattr(model, "config", None), "_name_or_path", "")
    return f"{Path(name).name or 'model'}-GRPO"
