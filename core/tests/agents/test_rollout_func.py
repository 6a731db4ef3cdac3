"""`rollout_func(prompts, trainer)`: what it is given, what becomes of what it returns, and what it must not return."""

from __future__ import annotations

import pytest
import torch
from plaudit.errors import ContractError, UsageError
from plaudit.grpo.generating.agents import plan_agents
from scripted import Keep, chat_rows, make_model, make_tokenizer

ROWS = [{"prompt": f"say {place}", "answer": str(place)} for place in range(4)]


def make(tmp_path, function, reward, rows=ROWS, **more):
    from plaudit.grpo import GRPOConfig, GRPOTrainer

    settings = {
        "output_dir": str(tmp_path), "use_cpu": True, "num_generations": 4, "per_device_train_batch_size": 8,
        "max_completion_length": 16, "max_steps": 1, "logging_steps": 1, "save_strategy": "no", "report_to": [],
        "disable_tqdm": True, "shuffle_dataset": False, **more,
    }  # fmt: skip
    return GRPOTrainer(
        make_model(), reward, GRPOConfig(**settings), rows, processing_class=make_tokenizer(), rollout_func=function
    )


def output(tokenizer, prompts, each, **more):
    """`each` rollouts a prompt; completion k of a prompt is k + 1 letters, and an end."""
    texts = [(prompt, place) for prompt in prompts for place in range(each)]
    ids = [tokenizer(text="abcdefgh"[: place + 1] + "<|im_end|>")["input_ids"] for _, place in texts]
    return {
        "prompt_ids": [tokenizer(text=str(prompt))["input_ids"] for prompt, _ in texts],
        "completion_ids": ids,
        "logprobs": [[-0.25] * len(one) for one in ids],
        **{name: make(texts, ids) for name, make in more.items()},
    }


def test_it_is_given_each_prompt_once_and_what_else_it_returns_reaches_rewards(tmp_path):
    keep, given = Keep(), []

    def write(prompts, trainer):
        given.append((prompts, trainer.num_generations))
        return output(
            trainer.processing_class, prompts, trainer.num_generations,
            score=lambda texts, ids: [len(one) for one in ids], note=lambda texts, ids: "same",
        )  # fmt: skip

    def by_score(completions, score, note, answer, **given):
        return [float(value) for value in score]

    trainer = make(tmp_path, write, [keep, by_score])
    trainer.train()
    assert given == [(["say 0", "say 1"], 4)]
    seen = keep.seen[0]
    assert seen["completions"] == ["a", "ab", "abc", "abcd"] * 2
    assert seen["score"] == [2, 3, 4, 5] * 2
    assert seen["note"] == ["same"] * 8
    assert seen["answer"] == ["0"] * 4 + ["1"] * 4
    log = trainer.state.log_history[0]
    assert log["rewards/by_score/mean"] == 3.5
    assert log["completions/mean_length"] == 3.5
    assert log["completions/clipped_ratio"] == 0


def test_one_that_answers_each_prompt_once_is_given_it_as_often_as_needed(tmp_path):
    """As functions do that TRL 1.16 calls: it repeats the prompts."""
    keep, given = Keep(), []

    def write(prompts, trainer):
        given.append(len(prompts))
        made = output(trainer.processing_class, prompts, 1)
        return {**made, "call": [(len(given), place) for place in range(len(prompts))]}

    make(tmp_path, write, keep, max_steps=2).train()
    assert given == [2, 6, 8]
    assert keep.seen[0]["call"] == [(1, 0), (2, 0), (2, 1), (2, 2), (1, 1), (2, 3), (2, 4), (2, 5)]
    assert keep.seen[0]["answer"] == ["0"] * 4 + ["1"] * 4


def test_the_mask_of_the_environment_counts_and_conversations_are_passed_as_they_are(tmp_path):
    keep, given = Keep(), []

    def write(prompts, trainer):
        given.extend(prompts)
        prompts[0].append("changed here alone")
        return output(
            trainer.processing_class,
            prompts,
            4,
            env_mask=lambda _, ids: [[0] + [1] * (len(one) - 1) for one in ids],
        )

    rows = chat_rows()
    trainer = make(tmp_path, write, keep, rows)
    batches = []
    source = trainer.source
    annotate = source.annotate
    source.annotate = lambda batch: batches.append(batch) or annotate(batch)
    trainer.train()
    assert rows == chat_rows()
    assert keep.seen[0]["completions"][1] == [{"role": "assistant", "content": "ab"}]
    assert trainer.state.log_history[0]["completions/mean_length"] == 2.5
    masks = torch.cat([batch.mask for batch in batches])
    assert masks[:, 0].sum() == 0
    assert sorted(masks.sum(1).tolist()) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_several_log_probs_a_token_with_their_tokens(tmp_path):
    def write(prompts, trainer):
        made = output(trainer.processing_class, prompts, 4)
        ids = made["completion_ids"]
        made["logprob_token_ids"] = [[[7, token] for token in one] for one in ids]
        made["logprobs"] = [[[-9.0, -0.5] for _ in one] for one in ids]
        return made

    trainer = make(tmp_path, write, Keep())
    rollouts = []
    record = trainer.source.collected
    trainer.source.collected = lambda batch, mode: rollouts.extend(batch.rollouts) or record(batch, mode)
    trainer.train()
    assert all(set(rollout.logprobs) == {-0.5} for rollout in rollouts)


def test_empty_completions_and_missing_log_probs_train(tmp_path):
    def write(prompts, trainer):
        made = output(trainer.processing_class, prompts, 4)
        made["completion_ids"][0] = []
        return {**made, "logprobs": None}

    keep = Keep()
    trainer = make(tmp_path, write, keep)
    trainer.train()
    assert keep.seen[0]["completions"][0] == ""
    assert trainer.state.log_history[0]["completions/min_length"] == 0

    def nothing(prompts, trainer):
        made = output(trainer.processing_class, prompts, 4)
        return {**made, "completion_ids": [[] for _ in range(8)], "logprobs": [[] for _ in range(8)]}

    make(tmp_path, nothing, Keep()).train()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: list(made), "returned a list; expected a dict"),
        (lambda made: {**made, "logprobs": made["logprobs"][:7]}, "'logprobs' has 7 entries for 8 rollouts"),
        (lambda made: {k: v for k, v in made.items() if k != "prompt_ids"}, "returned no 'prompt_ids'"),
        (lambda made: {**made, "extra": [1, 2]}, "'extra' has 2 entries for 8 rollouts"),
        (lambda made: {**made, "logprobs": [[0.0]] * 8}, "logprobs of rollout 0 has 1 entries for 2 completion tokens"),
        (lambda made: {**made, "env_mask": [[2, 1, 1, 1, 1][: len(one)] for one in made["completion_ids"]]},
         "env_mask of rollout 0 holds something else than 0 and 1"),
        (lambda made: {**made, "prompt_ids": [[]] * 8}, "prompt_ids of rollout 0 is empty"),
        (lambda made: {**made, "prompts": ["x"] * 8}, "'prompts' is a name that rewards get"),
        (lambda made: {**made, "logprob_token_ids": [[99] * len(one) for one in made["completion_ids"]]},
         "lack the sampled token"),
        (lambda made: {name: values * 2 for name, values in made.items()}, "has 16 entries for 8 rollouts"),
    ],
)  # fmt: skip
def test_what_it_must_not_return(tmp_path, change, message):
    def write(prompts, trainer):
        return change(output(trainer.processing_class, prompts, 4))

    with pytest.raises(ContractError, match=f"rollout_func.*{message}"):
        make(tmp_path, write, Keep()).train()


def test_it_writes_whole_rollouts_so_nothing_stands_beside_it(tmp_path):
    with pytest.raises(UsageError, match="leave tools and environment_factory out"):
        plan_agents([print], None, print)
    with pytest.raises(UsageError, match="rollout_func is a str"):
        make(tmp_path, "name", Keep())


def test_the_engine_has_the_weights_before_it_is_called(tmp_path, monkeypatch):
    told = []

    def write(prompts, trainer):
        told.append("called")
        return output(trainer.processing_class, prompts, 4)

    trainer = make(tmp_path, write, Keep(), max_steps=2)
    engine = trainer.source.collector.writer.generator
    monkeypatch.setattr(type(engine), "refresh", lambda self, step: told.append(step))
    trainer.train()
    assert told == [0, "called", 1, "called"]
