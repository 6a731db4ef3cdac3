"""reward_lookahead = 1: the next batch is written while the last rewards of this one are computed."""

from __future__ import annotations

import time

import pytest
import torch
from plaudit import UsageError
from plaudit.grpo.writing import SingleTurnWriter
from plaudit.scoring.errors import ScoringPaused

from runs import count_digits, make_trainer, metrics_of

TIMINGS = ("step_time", "runtime", "_per_second", "scoring/", "train_loss", "total_flos")


class Recorder:
    """A reward that notes which batches it began and ended, and takes its time."""

    def __init__(self, seconds=0.0):
        self.events, self.seconds, self.__name__ = [], seconds, "recorder"

    def __call__(self, completions, trainer_state, **columns):
        step = trainer_state.global_step
        self.events.append(("scoring", step))
        time.sleep(self.seconds)
        self.events.append(("scored", step))
        return count_digits(completions)


def test_the_next_batch_is_written_before_the_scores_of_this_one_are_in(tmp_path, monkeypatch):
    reward = Recorder(0.5)
    trainer = make_trainer(tmp_path, reward, max_steps=3, reward_lookahead=1)
    write = SingleTurnWriter.write

    def noted(self, work, finished):
        reward.events.append(("writing", trainer.state.global_step))
        return write(self, work, finished)

    monkeypatch.setattr(SingleTurnWriter, "write", noted)
    trainer.train()
    kinds = [kind for kind, _ in reward.events]
    writings = [place for place, kind in enumerate(kinds) if kind == "writing"]
    # Two batches are written with the first policy, one with the second, and none that nobody would learn from.
    assert [reward.events[place] for place in writings] == [("writing", 0), ("writing", 0), ("writing", 1)]
    assert writings[1] < kinds.index("scored")
    lines = metrics_of(tmp_path)
    assert [line["completions/staleness"] for line in lines if "completions/staleness" in line] == [1.0, 1.0]


def test_ratios_are_those_to_the_policy_that_wrote(tmp_path):
    """Each batch but the first keeps the log-probs of a policy one step older, so that its ratios differ from one."""

    def by_place(completions):
        return [float(place % 2) for place in range(len(completions))]

    trainer = make_trainer(tmp_path, by_place, max_steps=3, reward_lookahead=1, learning_rate=0.05)
    seen = []
    compute = trainer.compute_loss

    def looked(model, inputs, *args, **kwargs):
        stats = trainer.token_scorer(model, inputs)
        seen.append(float((stats.logprobs.detach() - inputs.old_logprobs).abs().max()))
        return compute(model, inputs, *args, **kwargs)

    trainer.compute_loss = looked
    trainer.train()
    assert seen[0] < 1e-5
    assert min(seen[1:]) > 1e-3


@pytest.mark.parametrize("more", [{}, {"per_device_train_batch_size": 4, "steps_per_generation": 4}])
def test_resumed_equals_uninterrupted(more, tmp_path):
    options = {**more, "max_steps": 6, "save_strategy": "steps", "save_steps": 3, "reward_lookahead": 1}
    whole = make_trainer(tmp_path, **options)
    whole.train()
    expected = metrics_of(tmp_path)
    rest = make_trainer(tmp_path, **options)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    for (name, one), other in zip(whole.model.named_parameters(), rest.model.named_parameters(), strict=True):
        assert torch.equal(one, other[1]), name
    assert kept(metrics_of(tmp_path)) == kept(expected)


def kept(lines):
    return [{key: value for key, value in line.items() if not any(part in key for part in TIMINGS)} for line in lines]


def test_a_pause_saves_a_checkpoint_and_drops_the_batch_ahead(tmp_path):
    calls = []

    def down_later(completions):
        calls.append(1)
        return [None] * len(completions) if len(calls) > 1 else count_digits(completions)

    trainer = make_trainer(tmp_path, down_later, max_steps=4, reward_lookahead=1)
    with pytest.raises(ScoringPaused, match="8 of 8 rollouts have no score"):
        trainer.train()
    assert trainer.source.ahead is None
    assert (tmp_path / "checkpoint-1").is_dir()


def test_how_much_may_be_unscored_is_configured(tmp_path):
    def half(completions):
        return [None if place % 4 else float(place) for place in range(len(completions))]

    make_trainer(tmp_path, half, max_steps=1, max_unscored_share=None).train()
    with pytest.raises(ScoringPaused, match=r"max_unscored_share = 0\.7"):
        make_trainer(tmp_path, half, max_steps=1, max_unscored_share=0.7).train()
    with pytest.raises(UsageError, match="max_unscored_share"):
        make_trainer(tmp_path, max_unscored_share=2)


def test_it_is_zero_or_one(tmp_path):
    with pytest.raises(UsageError, match="reward_lookahead"):
        make_trainer(tmp_path, reward_lookahead=2)
