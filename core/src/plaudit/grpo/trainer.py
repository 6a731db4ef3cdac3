"""The GRPO trainer: sample, generate, score, advantages, loss. The parts live in modules of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader
from transformers import TrainerCallback

from ..scoring.scorer import Scorer
from . import assembly
from .batch import MicroBatch
from .checking.refusals import check_groups, refuse_conversations_in_step, refuse_parallelism
from .config import GRPOConfig
from .entropy import EntropyController
from .evaluating import EvaluatingTrainer
from .forward.balancing import balance_coefficient, with_balance
from .forward.idle_rows import active_stats, skipped_rows, teaches_without_advantage
from .forward.old_logprobs import needs_old_logprobs, sampler_is_policy
from .forward.ordering import build_order
from .generating.agents import plan_agents
from .generating.colocating import check_vllm
from .generating.sampler_correction import SamplerCorrector
from .generating.sharding import whole_weights
from .losses import policy_loss
from .policy.moving_reference import follow_policy
from .policy.reference_model import Annotator
from .policy.reward_models import prepare_models
from .ranks import Ranks
from .records import LossOptions, LossScale
from .reporting.hooking import StepHooks
from .rows.datasets import check_prompt_lengths
from .rows.evaluation import generations_in_evaluation, ticks
from .saving import checkpoints
from .setup import check_inputs, default_output_dir, prepare_policy
from .world import World


class GRPOTrainer(EvaluatingTrainer):
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
        self.agents = plan_agents(tools, environment_factory, rollout_func).given_to(self)
        check_vllm(args, assembly.sampling_options(args), converses=self.agents.converse)
        specs, train_dataset, eval_dataset = check_inputs(
            model, reward_funcs, reward_processing_classes, args, train_dataset, eval_dataset, self.agents
        )
        set_seed(args.seed)
        policy, tokenizer = prepare_policy(model, processing_class, peft_config, quantization_config, args)
        super().__init__(
            model=policy,
            args=args,
            data_collator=list,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=tokenizer,
            callbacks=callbacks,
            optimizers=optimizers,
        )
        refuse_parallelism(self)
        prepare_models(specs, args.device)
        # With ZeRO-3 a loaded model is spread over the ranks already, and parts of it are tried and copied here.
        with whole_weights(self.model, ranks := Ranks(self.accelerator)):
            self._assemble(Scorer(specs, reduce=ranks.total, max_unscored_share=args.max_unscored_share), ranks)

    def _assemble(self, scorer: Scorer, ranks: Ranks) -> None:
        args = self.args
        # The loss is divided by the accumulation steps, or by what spans them, in `policy_loss`.
        self.loss_is_scaled_for_ga = True
        # Each rank draws its own completions.
        set_seed(args.seed, device_specific=True)
        self.world = World(self.accelerator)
        # TRL's names, which rollout functions read.
        self.num_generations, self.num_generations_eval = args.num_generations, generations_in_evaluation(args)
        self.loss_options = LossOptions.from_config(args)
        self.entropy = EntropyController.from_config(args)
        self.balance = balance_coefficient(args, self.model)
        self.token_scorer = assembly.build_token_scorer(args, self.model, balanced=bool(self.balance))
        self.skips_idle_rows = not (self.balance or teaches_without_advantage(self.loss_options))
        self.reference = assembly.build_reference(args, self.model, self.accelerator)
        self.moving_reference = follow_policy(args, self.reference, self.accelerator)
        if self.moving_reference is not None:
            self.add_callback(self.moving_reference)
        collector = assembly.build_collector(args, self.model, self.processing_class, scorer, ranks, self.agents)
        check_groups(args, scorer)
        refuse_conversations_in_step(args, self.accelerator, self.agents)
        check_prompt_lengths(self.train_dataset, self.eval_dataset, collector.writer.codec)
        self.source = assembly.build_source(
            args,
            self.train_dataset,
            collector,
            self._annotator(),
            self.record_collected,
            balanced=bool(self.balance),
            arrange=build_order(args, self.loss_options, self.token_scorer),
        )
        self.sampler = SamplerCorrector.from_config(args, lambda: self.source.collector.writer.generator.exact)
        self.add_callback(StepHooks())
        self.start_recording()

    def _annotator(self) -> Annotator:
        return Annotator(
            lambda: self.model_wrapped,
            self.token_scorer,
            needs_old_logprobs(self.args),
            self.reference,
            lambda: sampler_is_policy(self.args, self.source.collector, self.model),
        )

    # One step: the Trainer's loop calls training_step, which asks for inputs and then for the loss.

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any) -> torch.Tensor:
        """Forward and backward of one micro-batch, generating first when the buffer is used up."""
        began = time.perf_counter()
        self.restore_unfinished_loss()
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
            with checkpoints.saved_when_paused(self):
                return self.source.next(self.state)
        generations = generations_in_evaluation(self.args)
        return self.source.evaluate(inputs, num_generations=generations, trainer_state=self.state)

    def compute_loss(
        self, model: nn.Module, inputs: MicroBatch, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """The loss of a micro-batch, scaled for accumulation, and its metrics."""
        if return_outputs:
            raise ValueError("GRPOTrainer has no outputs beside the loss; call compute_loss with return_outputs=False")
        options, scale = self.loss_options, self._loss_scale(inputs)
        skips = self.skips_idle_rows and self._mode == "train"
        if skips:
            stats = active_stats(self.token_scorer, model, inputs)
        else:
            stats = self.token_scorer(model, inputs, entropies="bonus" if options.entropy_bonus else "metric")
        result = policy_loss(
            self.sampler(inputs.loss_inputs(stats.logprobs, stats.entropies, stats.ran), inputs, self._mode),
            options,
            scale,
            entropy_coef=self.entropy.coefficient,
            world=self.world,
        )
        result = with_balance(result, stats, self.balance, scale.accumulation)
        more = {"skipped_rows": skipped_rows(stats)} if skips else {}
        more |= self.sampler.take(self._mode, self.source)
        found = {**result.statistics, **more}
        if not inputs.share:
            found = {name: statistic.silent() for name, statistic in found.items()}
        self.windows[self._mode].add_statistics(found, self.batch_weight)
        if options.entropy_bonus and self._mode == "train":
            self.entropy.observe(result.entropy_sum, result.entropy_count)
        return result.loss

    def _loss_scale(self, batch: MicroBatch) -> LossScale:
        scale = LossScale(batch.num_items, self.args.max_completion_length, world_size=self.world.size)
        if self._mode == "eval":
            return replace(scale, world_size=1 / batch.share if batch.share else 1.0, whole=True)
        accumulation = self.current_gradient_accumulation_steps
        return replace(scale, accumulation=accumulation, steps_per_generation=self.args.steps_per_generation)

    # Data: training rows are drawn by the source, so its loader only counts micro-batches.

    def get_train_dataloader(self) -> DataLoader:
        """One tick a micro-batch, as many as the dataset gives in an epoch."""
        rollouts = self.args.per_device_train_batch_size * self.world.size
        known = self.source.micro_batches_per_epoch
        # A stream counts as one epoch of max_steps, as for every Trainer.
        count = self.args.max_steps * self.args.gradient_accumulation_steps if known is None else known
        return ticks(count, rollouts=rollouts)

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["prompt"]
