"""max_staleness: generation batches are written in a thread while the policy learns from others."""

from __future__ import annotations

import copy
import statistics
import threading
import time
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from plaudit.errors import UsageError
from plaudit.grpo import GRPOConfig, assembly
from plaudit.rollout.transformers_generator import TransformersGenerator
from plaudit.scoring.errors import ScoringPaused

from runs import ROWS, count_digits, make_trainer, metrics_of

SERVER = {"use_vllm": True, "vllm_mode": "server"}
# What the sampler corrector gathers over a batch is not kept in the middle of one.
TIMINGS = ("sampling/", "step_time", "runtime", "_per_second", "scoring/", "train_loss", "total_flos")


class Elsewhere:
    """A generator with weights of its own, as on another machine. `events`: what it did, by the step of its weights."""

    exact = False

    def __init__(self, model, tokenizer, seconds=0.0, events=None):
        self.policy, self.tokenizer, self.seconds = model, tokenizer, seconds
        self.step, self.copy, self.writing = None, None, 0
        self.owner = threading.get_ident()
        self.events = [] if events is None else events

    def refresh(self, step):
        if threading.get_ident() != self.owner:
            assert step == self.step, "a thread that writes finds its weights there"
            return
        assert not self.writing, "weights are sent while nothing is written"
        self.step, self.copy = step, copy.deepcopy(self.policy)
        self.events.append(("sent", step))

    def generate(self, requests, sampling):
        self.writing += 1
        self.events.append(("writing", self.step))
        time.sleep(self.seconds)
        try:
            yield from TransformersGenerator(self.copy, self.tokenizer).generate(requests, sampling)
        finally:
            self.writing -= 1
            self.events.append(("written", self.step))

    def close(self):
        pass


@pytest.fixture
def elsewhere(monkeypatch):
    """Trainers generate elsewhere; returns what happens there, and how long a batch takes."""
    settings = {"events": [], "seconds": 0.0, "make": Elsewhere}

    def build(args, model, tokenizer, ranks):
        return settings["make"](model, tokenizer, settings["seconds"], settings["events"])

    monkeypatch.setattr(assembly, "build_generator", build)
    return settings


def slow_training(trainer, seconds):
    compute = trainer.compute_loss

    def slowed(*args, **kwargs):
        time.sleep(seconds)
        return compute(*args, **kwargs)

    trainer.compute_loss = slowed


class Patient(Elsewhere):
    """Ends a batch only when the trainer learns with the weights that write it."""

    learning: ClassVar[list[threading.Event]] = []

    def generate(self, requests, sampling):
        places = [writing for kind, writing in self.events if kind == "writing"]
        yield from super().generate(requests, sampling)
        if places:  # the first batch has nothing to be beside
            assert self.learning[self.step].wait(60), "the policy does not learn while a batch is written"


def test_the_next_batch_is_written_while_this_one_is_learnt_from(tmp_path, elsewhere, monkeypatch):
    monkeypatch.setattr(Patient, "learning", [threading.Event() for _ in range(4)])
    elsewhere["make"] = Patient
    trainer = make_trainer(tmp_path, max_steps=4, max_staleness=1, **SERVER)
    compute = trainer.compute_loss

    def noted(*args, **kwargs):
        Patient.learning[trainer.state.global_step].set()
        return compute(*args, **kwargs)

    trainer.compute_loss = noted
    trainer.train()
    # Two batches with the first weights, then one a step, and none that nobody would learn from.
    assert [step for kind, step in elsewhere["events"] if kind == "writing"] == [0, 0, 1, 2]
    staleness = [line["completions/staleness"] for line in metrics_of(tmp_path) if "completions/staleness" in line]
    assert staleness == [1.0, 1.0, 1.0]


def test_a_step_takes_the_longer_of_both_not_their_sum(tmp_path, elsewhere):
    def step_time(folder, **options):
        trainer = make_trainer(tmp_path / folder, max_steps=6, **options, **SERVER)
        trainer.source.collector.writer.generator.seconds = 0.4
        slow_training(trainer, 0.4)
        trainer.train()
        return statistics.median(line["step_time"] for line in metrics_of(tmp_path / folder) if "step_time" in line)

    in_turn, beside = step_time("turn"), step_time("beside", max_staleness=1)
    assert in_turn > 0.8
    assert beside < 0.75 * in_turn


def test_staleness_stays_within_its_bound(tmp_path, elsewhere):
    elsewhere["seconds"] = 0.1
    trainer = make_trainer(tmp_path, max_steps=8, max_staleness=3, **SERVER)
    slow_training(trainer, 0.15)
    trainer.train()
    staleness = [line.get("completions/staleness", 0.0) for line in metrics_of(tmp_path)[:8]]
    assert max(staleness) <= 3
    assert sum(kind == "writing" for kind, _ in elsewhere["events"]) == 8


@pytest.mark.parametrize(
    "more", [{}, {"per_device_train_batch_size": 4, "steps_per_generation": 4, "max_staleness": 4}]
)
def test_resumed_equals_uninterrupted(more, tmp_path, elsewhere):
    options = {"max_staleness": 1, **more, "max_steps": 6, "save_strategy": "steps", "save_steps": 3, **SERVER}
    whole = make_trainer(tmp_path, **options)
    whole.train()
    expected = metrics_of(tmp_path)
    rest = make_trainer(tmp_path, **options)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    for (name, one), other in zip(whole.model.named_parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other), name
    assert kept(metrics_of(tmp_path)) == kept(expected)


def kept(lines):
    return [{key: value for key, value in line.items() if not any(part in key for part in TIMINGS)} for line in lines]


class Greedy(Elsewhere):
    def generate(self, requests, sampling):
        yield from super().generate(requests, replace(sampling, temperature=0.0))


def test_columns_weights_and_evaluation_are_as_in_turn(tmp_path, elsewhere):
    """Without a learning rate it does not matter when a batch is written: everything else must be the same."""

    elsewhere["make"] = Greedy

    def judge(completions, answer, trainer_state, log_extra, log_metric, **columns):
        log_extra("gold", answer)
        log_metric("at", trainer_state.global_step)
        return [float(len(text) > len(gold)) for text, gold in zip(completions, answer, strict=True)]

    def run(folder, **options):
        trainer = make_trainer(
            folder, [judge, count_digits], eval_rows=ROWS[:4], reward_weights=[0.5, 2.0], learning_rate=0.0,
            max_steps=4, eval_strategy="steps", eval_steps=2, log_completions=True, **options, **SERVER,
        )  # fmt: skip
        trainer.train()
        return trainer, metrics_of(folder)

    _, in_turn = run(tmp_path / "turn")
    _, beside = run(tmp_path / "beside", max_staleness=1)
    names = {"reward", "rewards/judge/mean", "rewards/count_digits/mean", "eval_reward", "completions/mean_length"}
    assert [{name: line.get(name) for name in names} for line in in_turn] == [
        {name: line.get(name) for name in names} for line in beside
    ]
    # A reward sees the step whose policy wrote.
    assert [line["at"] for line in in_turn if "at" in line] == [0.0, 1.0, 2.0, 3.0]
    assert [line["at"] for line in beside if "at" in line] == [0.0, 0.0, 1.0, 2.0]
    assert "gold" in _table(tmp_path / "beside").column_names
    assert _table(tmp_path / "beside").column("gold") == _table(tmp_path / "turn").column("gold")


def _table(folder):
    import pyarrow.parquet

    return pyarrow.parquet.read_table(folder / "completions" / "train_00004.parquet")


class Breaking(Elsewhere):
    def generate(self, requests, sampling):
        if self.step >= 1:
            raise UsageError("the generator broke")
        yield from super().generate(requests, sampling)


def test_what_fails_in_the_thread_ends_training(tmp_path, elsewhere):
    elsewhere["make"] = Breaking
    trainer = make_trainer(tmp_path, max_steps=4, max_staleness=1, **SERVER)
    with pytest.raises(UsageError, match="the generator broke"):
        trainer.train()
    assert trainer.state.global_step == 2


def test_a_pause_saves_a_checkpoint_and_drops_what_is_ahead(tmp_path, elsewhere):
    calls = []

    def down_later(completions):
        calls.append(1)
        return [None] * len(completions) if len(calls) > 1 else count_digits(completions)

    trainer = make_trainer(tmp_path, down_later, max_steps=4, max_staleness=1, **SERVER)
    with pytest.raises(ScoringPaused):
        trainer.train()
    assert not trainer.source.overlap.ahead
    assert (tmp_path / "checkpoint-1").is_dir()


REFUSED = {
    "in the process": ({"max_staleness": 1}, "shares weights and device with the policy.*vllm_mode='server'"),
    "colocate": ({"max_staleness": 1, "use_vllm": True}, "shares weights and device"),
    "uncorrected": ({"max_staleness": 1, "vllm_importance_sampling_correction": False, **SERVER}, "older weights"),
    "too small": ({"max_staleness": 1, "num_iterations": 2, **SERVER}, "in 2 optimizer steps.*max_staleness=2"),
    "twice": ({"max_staleness": 1, "reward_lookahead": 1, **SERVER}, "reward_lookahead=0"),
    "negative": ({"max_staleness": -1, **SERVER}, "max_staleness is -1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_overlap_is_refused(case, tmp_path):
    options, expected = REFUSED[case]
    with pytest.raises(UsageError, match=expected):
        GRPOConfig(output_dir=str(tmp_path), use_cpu=True, **options)
