"""A run that is stopped and resumed ends with the weights and the log of one that was not, to the bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from killed_main import SCENARIOS
from plaudit.scoring.spec import reward_specs
from tiny_policy import lora

from runs import count_digits, make_trainer, metrics_of

KILLED_MAIN = Path(__file__).with_name("killed_main.py")
TIMINGS = ("step_time", "runtime", "_per_second", "scoring/")
CYCLE = {"per_device_train_batch_size": 4, "steps_per_generation": 2, "num_iterations": 2}
CASES = {
    "aligned": {},
    "in the middle of a cycle": {"per_device_train_batch_size": 4, "steps_per_generation": 4, "num_iterations": 2},
    "accumulating": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "steps_per_generation": 4},
    "inside a logging window": {"logging_steps": 4},
    "with a reference and entropy control": {
        "beta": 0.1,
        "num_iterations": 2,
        "use_adaptive_entropy": True,
        "entropy_coef": 0.01,
        "entropy_target": 9.0,
    },
    "with a moving reference": {"beta": 0.5, "sync_ref_model": True, "ref_model_sync_steps": 2},
    # Three micro-batches a generation batch, two a step, each batch taken three times: a step spans two batches.
    "steps across batches": {
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 3,
        "num_iterations": 3,
    },
    "dynamic sampling": {"dynamic_sampling": True, **CYCLE},
    "rows by what they teach": {"row_sampling": "spread", **CYCLE},
    "scores one batch late": {"reward_lookahead": 1, **CYCLE},
    "an adapter": {"peft_config": {"use_dora": True}, "beta": 0.1, **CYCLE},
    "weights by schedule": {
        "reward_funcs": [{"schedule": "linear", "start": 0.0, "end": 1.0, "steps": 5}, {"schedule": "adaptive"}],
        **CYCLE,
    },
}


QUICK = {"with a moving reference", "aligned", "in the middle of a cycle", "steps across batches"}


@pytest.mark.parametrize("case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CASES])
def test_resumed_equals_uninterrupted(case, tmp_path):
    # 16 rows and at least 2 prompts a batch: six steps end one epoch and begin another in some cases.
    options = {**CASES[case], "max_steps": 6, "save_strategy": "steps", "save_steps": 3, "save_total_limit": None}
    whole = make_trainer(tmp_path, **built(options))
    whole.train()
    expected = metrics_of(tmp_path)
    rest = make_trainer(tmp_path, **built(options))
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))

    for (name, one), other in zip(whole.model.named_parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other), name
    assert kept(metrics_of(tmp_path)) == kept(expected)


def built(options):
    """The options with new objects: an adapter, and rewards of these weights."""
    options = dict(options)
    if "peft_config" in options:
        options["peft_config"] = lora(**options["peft_config"])
    if "reward_funcs" in options:
        specs = reward_specs([count_digits, long_enough])
        options["reward_funcs"] = [
            replace(spec, weight=weight) for spec, weight in zip(specs, options["reward_funcs"], strict=True)
        ]
    return options


def long_enough(completions, **kwargs):
    return [float(len(text) > 4) for text in completions]


def kept(lines):
    return [{key: value for key, value in line.items() if not any(part in key for part in TIMINGS)} for line in lines]


def test_epochs_after_a_resume_go_on_in_the_same_order(tmp_path):
    def prompts(trainer):
        found = []
        original = trainer.source.collected
        trainer.source.collected = lambda batch, mode: (
            found.append([rollout.row.prompt for rollout in batch.rollouts]),
            original(batch, mode),
        )
        return found

    options = {"max_steps": 12, "save_strategy": "steps", "save_steps": 9}
    whole = make_trainer(tmp_path, **options)
    expected = prompts(whole)
    whole.train()
    assert expected[0] != expected[8]
    rest = make_trainer(tmp_path, **options)
    found = prompts(rest)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-9"))
    assert found == expected[9:]


def test_a_checkpoint_without_our_state_is_resumed_at_its_step_with_a_warning(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=4, save_strategy="steps", save_steps=2)
    trainer.train()
    (tmp_path / "checkpoint-2" / "plaudit_state.pth").unlink()
    again = make_trainer(tmp_path, max_steps=4)
    with pytest.warns(UserWarning, match="has no plaudit_state.pth"):
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.state.global_step == 4
    assert again.source.position == 4


def test_training_twice_begins_at_the_first_row_again(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=2, per_device_train_batch_size=4, steps_per_generation=4)
    trainer.train()
    assert trainer.source.buffer
    trainer.train()
    assert trainer.source.position == 2


# What a killed run leaves


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """What differs between runs that were killed four times and runs that were not, by scenario."""
    folder = tmp_path_factory.mktemp("killed")

    def differences(*scenarios):
        done = subprocess.run(
            [sys.executable, str(KILLED_MAIN), str(folder), *scenarios],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads((folder / f"{scenarios[0]}.json").read_text())

    return differences


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "scenario",
    ["mid-cycle", *(pytest.param(name, marks=pytest.mark.slow) for name in SCENARIOS if name != "mid-cycle")],
)
def test_a_run_that_is_killed_at_any_point_ends_as_one_that_is_not(scenario, killed):
    found = killed(scenario)
    assert sum(signal == 9 for _, signal, _ in found["kills"]) >= 3
    assert any(resumed for *_, resumed in found["kills"])
    assert found["differences"] == []
