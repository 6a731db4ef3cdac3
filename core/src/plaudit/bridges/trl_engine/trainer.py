"""TRL's trainer of a run, with the files and reports that a run has here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plaudit.scoring.spec import RewardSpec

from .chats import ShownTools, processing_class_for_trl
from .checking import trl_config
from .rewards import SharedScoring
from .rows import as_dataset
from .seats import Seat, seat_class, standalone

THREADS = 512


@dataclass(frozen=True, slots=True)
class TRLRun:
    """What a run trains with.

    model: a folder or hub id. config: its GRPOConfig; `asked`: the fields of it that the run file sets. `agents`: its
    tools and environments, None = there are none.
    """

    model: str
    rewards: Sequence[RewardSpec]
    config: Any
    asked: Mapping[str, Any]
    train: Sequence[Mapping[str, Any]]
    heldout: Sequence[Mapping[str, Any]]
    processing_class: Any
    peft_config: Any = None
    agents: Any = None
    callbacks: Sequence[Any] = ()


def build_trl_trainer(run: TRLRun) -> Any:
    """TRL's trainer, with `generate_completions` and metrics.jsonl as this engine's has them. Loads the model."""
    from .subclass import trainer_class

    scoring = SharedScoring(run.rewards, run.config)
    conversing = None if run.agents is None else Conversing(run, scoring)
    only_prompts = run.config.remove_unused_columns
    trainer = trainer_class()(
        run,
        conversing,
        model=run.model,
        reward_funcs=scoring.functions(),
        args=trl_config(run.config, run.asked, run.rewards),
        train_dataset=as_dataset(run.train, only_prompts=only_prompts),
        eval_dataset=as_dataset(run.heldout, only_prompts=only_prompts) if run.heldout else None,
        processing_class=run.processing_class if conversing is None else conversing.processing_class,
        peft_config=run.peft_config,
        callbacks=list(run.callbacks),
        **({} if conversing is None else conversing.arguments),
    )
    scoring.attach(trainer)
    if conversing is not None:
        conversing.attach(trainer)
    return trainer


class Conversing:
    """The tools and environments of a run, as TRL's trainer takes them.

    `arguments`: of its constructor. `attach` it to the trainer before it trains; `close` ends the environments.
    """

    def __init__(self, run: TRLRun, scoring: SharedScoring) -> None:
        self._agents = run.agents
        self._chats = run.agents.chats(run.processing_class, run.config.chat_template_kwargs or {})
        self._seats: list[Seat] = []
        self._trainer: Any = None
        self._config = run.config
        self._jobs = scoring.scorer.jobs("agents", threads=THREADS)
        self._joins = getattr(run.processing_class, "tokenizer", None) is None
        self.processing_class = processing_class_for_trl(run.processing_class, self._chats)
        self.arguments: dict[str, Any] = {"tools": self._tools(), "environment_factory": self._factory()}

    def attach(self, trainer: Any) -> None:
        """Show tools with our schemas, which carry also what no signature says."""
        self._trainer = trainer
        if not self._agents.kinds:
            trainer.tools = ShownTools(self._chats[None])
            return
        trainer._env_tools = {name: ShownTools(self._chats[kind]) for name, kind in self._agents.kinds.items()}

    def close(self) -> None:
        """Close every instance; training that goes on makes new ones."""
        for seat in self._seats:
            seat.close()

    def _tools(self) -> list[Any]:
        return [standalone(tool, self._jobs, joins=self._joins) for tool in self._agents.tools]

    def _factory(self) -> Any:
        if not self._agents.kinds:
            return None
        classes = {name: seat_class(kind, self._seat) for name, kind in self._agents.kinds.items()}
        return classes if self._agents.routed else classes[None]

    def _seat(self, kind: Any) -> Seat:
        seat = Seat(kind, self._jobs, self._seed, joins=self._joins, routed=self._agents.routed)
        self._seats.append(seat)
        return seat

    def _seed(self, row: Any) -> int:
        """The seed that a group's resets share: of the run, the step and the row."""
        from plaudit.grpo.generating.agent_writer import seed_of

        trainer = self._trainer
        return seed_of(self._config.seed, trainer.model.training, trainer.state.global_step, row)


def generate(
    trainer: Any, run: TRLRun, rows: Sequence[Mapping[str, Any]], num_generations: int, temperature: float | None
) -> list[dict[str, Any]]:
    """Generate with the policy as it is and score, by this engine's own loop; nothing is updated."""
    from plaudit.grpo.assembly import build_codec, sampling_options
    from plaudit.grpo.collecting import Collector
    from plaudit.grpo.generating.agent_writer import agent_writer
    from plaudit.grpo.generating.preview import ALONE, preview
    from plaudit.grpo.rows.evaluation import random_state_kept
    from plaudit.grpo.writing import SingleTurnWriter
    from plaudit.rollout.transformers_generator import TransformersGenerator
    from plaudit.scoring.scorer import Scorer

    config, model = run.config, trainer.accelerator.unwrap_model(trainer.model)
    codec = build_codec(config, model, run.processing_class)
    generator = TransformersGenerator(model, codec.tokenizer)
    with Scorer(run.rewards, max_unscored_share=None) as scorer, random_state_kept(trainer.args.device):
        if run.agents is None:
            writer: Any = SingleTurnWriter(codec, generator)
        else:
            writer = agent_writer(config, model, codec, generator, scorer, ALONE, run.agents)
        try:
            return preview(
                Collector(writer=writer, scorer=scorer, sampling=sampling_options(config), ranks=ALONE),
                rows,
                num_generations,
                temperature,
                config.per_device_train_batch_size * config.steps_per_generation,
                trainer.state,
            )
        finally:
            if run.agents is not None:
                writer.rest()
