"""Rows wait for room in the cache, and what they become does not depend on when they are admitted."""

import pytest
import torch
from plaudit.rollout.admission import WaitingList, cache_tokens_in_memory
from plaudit.rollout.protocol import Request, SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator

PROMPTS = [(5, 9, 3), (7,), (5, 9, 3), (4, 8, 15, 16, 23, 11), (7,), (31, 2, 19, 6, 6, 12, 3), (5, 9, 3), (2, 2)]


def written(model, requests, room=None, **options):
    generator = TransformersGenerator(model, max_cache_tokens=room)
    done = generator.generate(requests, SamplingOptions(**{"max_new_tokens": 20, "seed": 5, **options}))
    return {generated.index: generated for generated in done}


@pytest.mark.parametrize("variant", ["qwen3_sliding", "gemma3_sliding"])
@pytest.mark.parametrize("room", [1, 60, 110])
def test_any_room_gives_the_same_completions(tiny_model, requests_of, variant, room):
    model = tiny_model(variant)
    at_once, waiting = written(model, requests_of(PROMPTS)), written(model, requests_of(PROMPTS), room)
    assert len({len(generated.completion_ids) for generated in at_once.values()}) > 2
    for index, generated in at_once.items():
        assert waiting[index].completion_ids == generated.completion_ids
        assert waiting[index].logprobs == pytest.approx(generated.logprobs, abs=1e-4)


def test_the_cache_never_holds_more_than_the_room(tiny_model, requests_of):
    model = tiny_model("gemma")
    held = []

    def watch(module, args, kwargs):
        ids, cache = kwargs["input_ids"], kwargs["past_key_values"] if "past_key_values" in kwargs else kwargs["cache"]
        held.append((len(ids), cache.get_seq_length() + ids.shape[1]))

    model.register_forward_pre_hook(watch, with_kwargs=True)
    written(model, requests_of([(5, 9, 3)] * 12), 50)
    assert max(rows for rows, _ in held[1:]) == 2  # of 3 + 20 tokens
    assert max(rows * columns for rows, columns in held) <= 50


def test_a_request_with_a_seed_is_its_own(tiny_model):
    model = tiny_model("qwen3")
    alone = written(model, [Request(0, (5, 9, 3), seed=11)], seed=None)
    among = written(model, [Request(i, (5, 9, 3), seed=11 if i == 3 else None) for i in range(6)], seed=None)
    assert among[3].completion_ids == alone[0].completion_ids
    assert len({among[i].completion_ids for i in range(6)}) > 2


def test_the_random_state_moves_on_by_one_number_however_much_is_written(tiny_model, requests_of):
    model, left = tiny_model("qwen3"), []
    for tokens in (1, 20):
        torch.manual_seed(9)
        written(model, requests_of(PROMPTS), seed=None, max_new_tokens=tokens)
        left.append(torch.rand(1).item())
    assert left[0] == left[1]


def test_the_waiting_list_sorts_only_when_all_do_not_fit(requests_of):
    requests = requests_of(PROMPTS)
    assert WaitingList(requests, limit=10, max_cache_tokens=8 * 17).admit(0) == list(range(8))
    waiting = WaitingList(requests, limit=10, max_cache_tokens=60)
    assert waiting.admit(0) == [5, 3, 0]
    assert waiting.admit(31) == []
    assert waiting.admit(20) == [2, 6, 7]
    assert len(waiting) == 2
    assert waiting.admit(0) == [1, 4]


def test_half_of_the_free_memory_is_the_room(tiny_model, monkeypatch):
    import psutil

    class Memory:
        available = 3 * 2 * 2 * 8 * 4 * 2 * 1000  # layers x (keys, values) x heads x size x bytes x 2

    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory)
    assert cache_tokens_in_memory(tiny_model("qwen2")) == 1000


class Rank:
    """What two ranks tell each other, played through in one process: the other rank decodes for `other` forwards."""

    def __init__(self, other):
        self.forwards, self.other = 0, other

    def __call__(self, busy):
        self.forwards += 1
        return busy or self.forwards <= self.other


@pytest.mark.parametrize("other", [0, 9, 40])
def test_ranks_in_step_run_the_same_number_of_forwards(tiny_model, requests_of, other):
    model = tiny_model("qwen3")
    shapes = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    rank = Rank(other)
    generator = TransformersGenerator(model, in_step=rank)
    sampling = SamplingOptions(max_new_tokens=20, temperature=0)
    done = {g.index: g.completion_ids for g in generator.generate(requests_of(PROMPTS[:3]), sampling)}
    assert len(shapes) == rank.forwards - 1  # the last question is answered with no
    assert len(shapes) >= other
    alone = TransformersGenerator(model).generate(requests_of(PROMPTS[:3]), sampling)
    assert done == {g.index: g.completion_ids for g in alone}
    assert len(list(TransformersGenerator(model, in_step=Rank(4)).generate([], sampling))) == 0
