"""What a training run does, seen from outside: prompts, rewards, tables, metrics, evaluation, callbacks."""

from __future__ import annotations

import math

import pytest
import torch
from plaudit.grpo.rows.prompts import as_row
from side_by_side import differences
from transformers import TrainerCallback

from runs import ROWS, count_digits, make_trainer, metrics_of, steps_of


def test_the_policy_learns_what_is_rewarded(tmp_path):
    trainer = make_trainer(
        tmp_path, max_steps=40, learning_rate=2e-2, num_generations=8, per_device_train_batch_size=16
    )
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    rewards = [line["reward"] for line in steps_of(tmp_path)]
    assert sum(rewards[-5:]) > 2 * sum(rewards[:5])
    assert not all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


def test_conversations_get_the_chat_template_and_its_arguments(tmp_path):
    rows = [{"prompt": [{"role": "user", "content": str(n)}]} for n in range(8)]
    seen = []

    def look(prompts, completions, **kwargs):
        seen.extend(zip(prompts, completions, strict=True))
        return [0.0] * len(prompts)

    plain = make_trainer(tmp_path / "a", look, rows=rows, max_steps=1)
    shouting = make_trainer(tmp_path / "b", look, rows=rows, max_steps=1, chat_template_kwargs={"shout": True})
    row = plain.source.collector.writer.codec.encode([as_row(rows[3])])[0]
    tokenizer = plain.processing_class
    assert tokenizer.decode(row) == "<u>3<a>"
    assert tokenizer.decode(shouting.source.collector.writer.codec.encode([as_row(rows[3])])[0]) == "<u>3<a>!"
    plain.train()
    prompt, completion = seen[0]
    assert prompt[0]["role"] == "user"
    assert list(completion[0]) == ["role", "content"]


def test_evaluating_and_previewing_change_nothing_that_is_learnt(tmp_path):
    def weights(folder, look, **options):
        trainer = make_trainer(folder, **options)
        if look:
            trainer.generate_completions(ROWS[:3])
        trainer.train()
        return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])

    options = {"eval_rows": ROWS[:4], "eval_strategy": "steps", "eval_steps": 1}
    assert torch.equal(weights(tmp_path / "a", False), weights(tmp_path / "b", True, **options))


def test_an_evaluation_between_two_steps_of_a_window_weighs_nothing_in_it(tmp_path):
    """A cycle of two steps, logged every three, evaluated after the first: all metrics are those without it."""
    cycle = {"max_steps": 6, "logging_steps": 3, "steps_per_generation": 4, "gradient_accumulation_steps": 2}
    logs = []
    for name, options in (("plain", {}), ("evaluated", {"eval_strategy": "steps", "eval_steps": 1})):
        trainer = make_trainer(tmp_path / name, count_digits, eval_rows=ROWS[:6], **cycle, **options)
        trainer.train()
        logs.append(steps_of(tmp_path / name))
    plain, evaluated = logs
    assert len(plain) == 2
    for one, other in zip(plain, evaluated, strict=True):
        assert differences(one, other) == {}


def test_reference_log_probs_are_those_of_the_first_policy(tmp_path):
    trainer = make_trainer(tmp_path, beta=0.1, max_steps=3)
    first = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    kl = [line["kl"] for line in steps_of(tmp_path)]
    assert kl[0] == pytest.approx(0, abs=1e-6)
    assert kl[2] > 1e-6
    for name, value in trainer.reference.model.named_parameters():
        assert torch.equal(value, first[name])
        assert not value.requires_grad


OUTLIVES = {(1, 1, 1): False, (2, 1, 1): False, (1, 1, 2): True, (2, 4, 1): True}


@pytest.mark.parametrize(("accumulation", "steps", "iterations"), OUTLIVES)
def test_old_log_probs_are_taken_when_a_batch_outlives_a_step(accumulation, steps, iterations, tmp_path):
    needed = OUTLIVES[accumulation, steps, iterations]
    options = {"gradient_accumulation_steps": accumulation, "steps_per_generation": steps, "num_iterations": iterations}
    trainer = make_trainer(tmp_path, **options)
    trainer.train()
    assert (trainer.source.buffer[0].old_logprobs is not None) == needed


def test_generate_completions_scores_without_an_update(tmp_path):
    trainer = make_trainer(tmp_path)
    before = torch.cat([p.detach().flatten() for p in trainer.model.parameters()]).clone()
    records = trainer.generate_completions(ROWS[:3], num_generations=2)
    assert [record["prompt"] for record in records] == [row["prompt"] for row in ROWS[:3] for _ in range(2)]
    assert all(record["reward"] == record["count_digits"] for record in records)
    assert records[0]["answer"] == ROWS[0]["answer"]
    greedy = [[r["completion"] for r in trainer.generate_completions(ROWS[:3], temperature=0.0)] for _ in range(2)]
    assert greedy[0] == greedy[1]
    assert trainer.generate_completions([]) == []
    assert torch.equal(before, torch.cat([p.detach().flatten() for p in trainer.model.parameters()]))
    trainer.train()


def test_a_string_model_loads_in_float32_with_its_tokenizer_and_eos_as_pad(tmp_path, build_model, build_tokenizer):
    build_model().bfloat16().save_pretrained(tmp_path / "model")
    tokenizer = build_tokenizer()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path / "model")
    from plaudit.grpo import GRPOConfig, GRPOTrainer

    args = GRPOConfig(str(tmp_path / "out"), use_cpu=True, report_to=[], num_generations=4, max_completion_length=4)
    trainer = GRPOTrainer(str(tmp_path / "model"), count_digits, args, train_dataset=ROWS)
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    assert trainer.processing_class.pad_token == trainer.processing_class.eos_token
    assert trainer.processing_class.padding_side == "left"
    assert trainer.model.config.pad_token_id == trainer.processing_class.eos_token_id


def test_callbacks_and_optimizers_are_used(tmp_path, build_model):
    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = True

    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    trainer = make_trainer(tmp_path, model=model, callbacks=[Stop()], optimizers=(optimizer, schedule), max_steps=5)
    trainer.train()
    assert trainer.state.global_step == 1
    assert isinstance(trainer.optimizer.optimizer, torch.optim.SGD)


def test_truncated_completions_are_not_learnt_from_when_masked(tmp_path):
    trainer = make_trainer(tmp_path, mask_truncated_completions=True, max_completion_length=1, max_steps=1)
    before = torch.cat([p.detach().flatten() for p in trainer.model.parameters()]).clone()
    # With one token nearly every completion is cut off; suppressing the end token makes it all of them.
    trainer.source.collector = replace_sampling(trainer.source.collector, suppress_tokens=[1])
    trainer.train()
    assert torch.equal(before, torch.cat([p.detach().flatten() for p in trainer.model.parameters()]))
    assert steps_of(tmp_path)[0]["completions/clipped_ratio"] == 1


def replace_sampling(collector, **extra):
    from dataclasses import replace

    return replace(collector, sampling=replace(collector.sampling, generation_kwargs=extra))


@pytest.mark.parametrize("option", ["bf16", "gradient_checkpointing"])
def test_mixed_precision_and_checkpointing_train(option, tmp_path):
    trainer = make_trainer(tmp_path, **{option: True})
    trainer.train()
    losses = [line["loss"] for line in steps_of(tmp_path)]
    assert all(math.isfinite(loss) for loss in losses)
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}


def test_gradient_checkpointing_changes_no_weight(tmp_path):
    def weights(folder, **options):
        trainer = make_trainer(folder, **options)
        trainer.train()
        return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])

    torch.testing.assert_close(weights(tmp_path / "a"), weights(tmp_path / "b", gradient_checkpointing=True))


def test_the_best_checkpoint_by_reward_is_loaded_at_the_end(tmp_path):
    options = {
        "eval_rows": ROWS[:4],
        "eval_strategy": "steps",
        "eval_steps": 1,
        "save_strategy": "steps",
        "save_steps": 1,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_reward",
    }
    trainer = make_trainer(tmp_path, **options, max_steps=3)
    trainer.train()
    rewards = {line["step"]: line["eval_reward"] for line in metrics_of(tmp_path) if "eval_reward" in line}
    best = max(rewards, key=rewards.get)
    assert trainer.state.best_model_checkpoint == str(tmp_path / f"checkpoint-{best}")


def test_dropout_is_switched_off_when_asked(tmp_path, build_model):
    trainer = make_trainer(tmp_path, model=build_model(attention_dropout=0.5), disable_dropout=True)
    assert {layer.self_attn.attention_dropout for layer in trainer.model.model.layers} == {0.0}


def test_epochs_count_as_in_trl(tmp_path):
    trainer = make_trainer(tmp_path, rows=ROWS[:7], max_steps=-1, num_train_epochs=2)
    trainer.train()
    # Seven rows give three batches of two prompts an epoch; the seventh is left out.
    assert trainer.state.global_step == 6
    assert trainer.state.epoch == 2
