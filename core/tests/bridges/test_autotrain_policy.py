"""The policy that an episode is given: batched over episodes, with what transformers' generate takes."""

from __future__ import annotations

import random
import threading

import pytest
from plaudit import UsageError
from plaudit.bridges.autotrain.episodes import for_threads
from plaudit.bridges.autotrain.policy import EpisodeBatcher, PolicyHandle
from plaudit.rollout.protocol import SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator


def load(model_folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(model_folder), AutoTokenizer.from_pretrained(model_folder)


def test_generations_of_concurrent_episodes_are_one_batch(model_folder):
    model, tokenizer = load(model_folder)
    batcher = EpisodeBatcher(TransformersGenerator(model, tokenizer))
    found = {}
    begin = threading.Barrier(8)

    def episode(number):
        with batcher.episode():
            begin.wait()
            handle = PolicyHandle(model, batcher, 0, seed=number)
            found[number] = handle.generate(**tokenizer(f"{number} and", return_tensors="pt"), max_new_tokens=6)

    threads = [threading.Thread(target=episode, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert batcher.calls <= 3
    for number, written in found.items():
        inputs = tokenizer(f"{number} and", return_tensors="pt")
        alone = model.generate(**inputs, max_new_tokens=6, do_sample=False)
        assert written.tolist() == alone.tolist()


def test_an_error_in_generation_reaches_every_episode_that_waited(model_folder):
    model, tokenizer = load(model_folder)
    handle = PolicyHandle(model, EpisodeBatcher(TransformersGenerator(model, tokenizer)), 0, seed=1)
    inputs = tokenizer("a", return_tensors="pt")
    with pytest.raises(UsageError, match="num_beam_groups"):
        handle.generate(**inputs, num_beam_groups=2)
    with pytest.raises(UsageError, match="output_scores"):
        handle.generate(**inputs, output_scores=True)
    assert handle.generate(**inputs, max_new_tokens=2).shape == (1, 3)
    assert handle.config is model.config


def test_left_padded_prompts_are_read_by_their_mask(model_folder):
    import torch

    model, tokenizer = load(model_folder)
    handle = PolicyHandle(model, EpisodeBatcher(TransformersGenerator(model, tokenizer)), 0, seed=1)
    tokenizer.padding_side = "left"
    inputs = tokenizer(["ab", "abcdef"], return_tensors="pt", padding=True)
    written = handle.generate(**inputs, max_new_tokens=4)
    expected = model.generate(**inputs, max_new_tokens=4, do_sample=False)
    assert torch.equal(written[:, :6], inputs["input_ids"])
    assert written[:, 6:].tolist() == expected[:, 6:].tolist()


def test_an_episode_is_not_held_up_by_one_that_does_not_generate(model_folder):
    model, tokenizer = load(model_folder)
    batcher = EpisodeBatcher(TransformersGenerator(model, tokenizer))
    with batcher.episode(), batcher.episode():
        made = batcher.generate([(5, 6)], SamplingOptions(max_new_tokens=1, temperature=0), seed=1)
    assert len(made[0].completion_ids) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 4, "num_beams": 1, "use_cache": True, "pad_token_id": 0, "eos_token_id": 1},
        {"max_new_tokens": 4, "early_stopping": False, "synced_gpus": False, "token_type_ids": None},
        {"max_length": 9, "num_return_sequences": 1},
        {"max_new_tokens": 4, "repetition_penalty": 1.3},
    ],
)
def test_options_of_transformers_mean_what_they_mean_there(options, model_folder):
    model, tokenizer = load(model_folder)
    handle = PolicyHandle(model, EpisodeBatcher(TransformersGenerator(model, tokenizer)), 0, seed=1)
    inputs = tokenizer("hello", return_tensors="pt")
    theirs = {name: value for name, value in options.items() if name != "token_type_ids"}
    assert handle.generate(**inputs, **options).tolist() == model.generate(**inputs, **theirs).tolist()


def test_a_generation_config_and_several_sequences(model_folder):
    from transformers import GenerationConfig

    model, tokenizer = load(model_folder)
    handle = PolicyHandle(model, EpisodeBatcher(TransformersGenerator(model, tokenizer)), 0, seed=1)
    inputs = tokenizer("hello", return_tensors="pt")
    asked = GenerationConfig(max_new_tokens=3, do_sample=True, top_k=7)
    found = handle.generate(**inputs, generation_config=asked, num_return_sequences=3)
    assert found.shape == (3, 8)
    assert len({tuple(row) for row in found.tolist()}) > 1
    assert handle.generate(**inputs, generation_config=asked, max_new_tokens=1).shape == (1, 6)
    with pytest.raises(UsageError, match=r"shape \(5,\); expected \(batch, tokens\)"):
        handle.generate(inputs["input_ids"][0])
    with pytest.raises(UsageError, match="num_beams"):
        handle.generate(**inputs, num_beams=2)


def test_a_tokenizer_is_safe_in_many_threads(model_folder):
    tokenizer = for_threads(load(model_folder)[1])
    failed = []

    def work(seed):
        draw = random.Random(seed)
        for _ in range(100):
            limit = draw.choice([4, 16, 64])
            told = tokenizer(["abc" * draw.randint(1, 99), "d"], padding=draw.choice([True, "max_length"]),
                             truncation=True, max_length=limit)["input_ids"]  # fmt: skip
            if len(told[0]) != len(told[1]) or len(told[0]) > limit:
                failed.append(told)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert isinstance(tokenizer, type(load(model_folder)[1]))
