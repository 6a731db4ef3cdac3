"""Sampled completions follow the model's distribution, and their log-probs are those of that distribution."""

import math
from collections import Counter

import pytest
import torch
from plaudit.rollout.protocol import SamplingOptions
from plaudit.rollout.sampling import with_probability
from plaudit.rollout.transformers_generator import TransformersGenerator

PROMPT = (5, 3, 6)
DRAWS = 6000


@pytest.fixture
def model(tiny_model):
    """Eight tokens, none of which ends a completion, so that two tokens have 64 outcomes."""
    model = tiny_model("qwen3", vocab_size=8, initializer_range=0.12)
    model.generation_config.eos_token_id = None
    model.config.eos_token_id = None
    return model


def draw(model, requests, **options):
    done = TransformersGenerator(model).generate(requests, SamplingOptions(max_new_tokens=2, seed=7, **options))
    return sorted(done, key=lambda generated: generated.index)


def p_value(statistic, freedom):
    """Upper tail of the chi-square distribution."""
    return 1 - torch.special.gammainc(torch.tensor(freedom / 2), torch.tensor(statistic / 2)).item()


def exact_distribution(model, temperature=1.0):
    """Probability of every two-token completion, by the model's forward alone."""
    with torch.no_grad():
        first = (model(torch.tensor([PROMPT])).logits[0, -1] / temperature).softmax(-1)
        longer = torch.tensor([[*PROMPT, token] for token in range(8)])
        second = (model(longer).logits[:, -1] / temperature).softmax(-1)
    return {(a, b): (first[a] * second[a, b]).item() for a in range(8) for b in range(8)}


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.8])
def test_draws_follow_the_exact_distribution(model, requests_of, temperature):
    expected = exact_distribution(model, temperature)
    counts = Counter(g.completion_ids for g in draw(model, requests_of([PROMPT] * DRAWS), temperature=temperature))

    usual = [outcome for outcome, p in expected.items() if p * DRAWS >= 5]
    rest = 1 - sum(expected[outcome] for outcome in usual)
    statistic = sum((counts[o] - DRAWS * expected[o]) ** 2 / (DRAWS * expected[o]) for o in usual)
    if rest * DRAWS >= 5:
        unusual = DRAWS - sum(counts[outcome] for outcome in usual)
        statistic += (unusual - DRAWS * rest) ** 2 / (DRAWS * rest)
    assert len(usual) > 20
    assert p_value(statistic, len(usual) - 1) > 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 3},
        {"top_p": 0.7},
        {"min_p": 0.15},
        {"repetition_penalty": 1.6},
        {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "min_p": 0.05},
        {"typical_p": 0.6},
        {"epsilon_cutoff": 0.08},
        {"eta_cutoff": 0.1},
    ],
    ids=str,
)
def test_draws_follow_the_distribution_of_generate(model, requests_of, options):
    torch.manual_seed(1)
    ids = torch.tensor([PROMPT] * DRAWS)
    written = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=2,
        do_sample=True,
        **{"top_k": 0, **options},
    )
    theirs = Counter(tuple(row) for row in written[:, len(PROMPT) :].tolist())
    own = {name: options[name] for name in options if not name.endswith(("_cutoff", "typical_p"))}
    extra = {name: options[name] for name in options if name not in own}

    counts = Counter(
        g.completion_ids for g in draw(model, requests_of([PROMPT] * DRAWS), **own, generation_kwargs=extra)
    )

    outcomes = [o for o in set(counts) | set(theirs) if counts[o] + theirs[o] >= 10]
    rare = DRAWS - sum(counts[o] for o in outcomes), DRAWS - sum(theirs[o] for o in outcomes)
    pairs = [(counts[o], theirs[o]) for o in outcomes] + ([rare] if sum(rare) >= 10 else [])
    statistic = sum((a - b) ** 2 / (a + b) for a, b in pairs)
    assert p_value(statistic, len(pairs) - 1) > 1e-3


def test_logprobs_are_those_of_the_scaled_distribution(tiny_model, variant, requests_of):
    model = tiny_model(variant, initializer_range=0.15)
    prompts = [(5, 9, 3), (7,), (4, 8, 15, 16, 23, 4, 8, 15, 16, 23, 11, 30)] * 2
    sampling = SamplingOptions(max_new_tokens=16, temperature=0.7, seed=3)
    for done in TransformersGenerator(model).generate(requests_of(prompts), sampling):
        ids = torch.tensor([[*prompts[done.index], *done.completion_ids]])
        with torch.no_grad():
            logits = model(ids).logits[0, -len(done.completion_ids) - 1 : -1] / 0.7
        expected = logits.log_softmax(-1).gather(1, torch.tensor(done.completion_ids)[:, None]).squeeze(1)
        torch.testing.assert_close(torch.tensor(done.logprobs), expected, atol=2e-5, rtol=1e-4)


def test_truncated_logprobs_are_normalised_over_the_candidates(model, requests_of):
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT])).logits[0, -1]
    kept = logits.topk(3)
    expected = dict(zip(kept.indices.tolist(), kept.values.log_softmax(-1).tolist(), strict=True))

    seen = {g.completion_ids[0]: g.logprobs[0] for g in draw(model, requests_of([PROMPT] * 200), top_k=3)}

    assert seen == {token: pytest.approx(logprob, abs=1e-5) for token, logprob in expected.items()}


def test_greedy_logprobs_are_the_models(model, requests_of):
    with torch.no_grad():
        expected = model(torch.tensor([PROMPT])).logits[0, -1].log_softmax(-1).max().item()
    assert draw(model, requests_of([PROMPT]), temperature=0)[0].logprobs[0] == pytest.approx(expected, abs=1e-5)


def test_the_seed_decides(model, requests_of):
    requests = requests_of([PROMPT] * 50)
    assert draw(model, requests) == draw(model, requests)
    torch.manual_seed(5)
    first, second = (
        sorted(g.completion_ids for g in TransformersGenerator(model).generate(requests, SamplingOptions(2)))
        for _ in range(2)
    )
    torch.manual_seed(5)
    again = sorted(g.completion_ids for g in TransformersGenerator(model).generate(requests, SamplingOptions(2)))
    assert first == again
    assert first != second


def test_a_request_does_not_depend_on_its_company(tiny_model, requests_of):
    model = tiny_model("qwen3", initializer_range=0.1)
    sampling = SamplingOptions(max_new_tokens=30, seed=11)
    prompts = [(5, 9, 3)] * 12 + [(8, 8), (30, 4, 4, 4, 9, 2)] * 6

    alone = {
        g.index: g.completion_ids for g in TransformersGenerator(model).generate(requests_of(prompts[:12]), sampling)
    }
    among = {g.index: g.completion_ids for g in TransformersGenerator(model).generate(requests_of(prompts), sampling)}

    assert len({len(ids) for ids in alone.values()}) > 3
    assert {index: among[index] for index in alone} == alone


def test_a_token_without_probability_is_never_drawn(model, requests_of):
    options = {"suppress_tokens": list(range(7))}
    done = draw(model, requests_of([PROMPT] * 300), generation_kwargs=options)
    assert {g.completion_ids for g in done} == {(7, 7)}
    assert all(math.isclose(mark, 0, abs_tol=1e-6) for g in done for mark in g.logprobs)


NARROW = [{"temperature": value} for value in (1e-5, 1e-38, 1e-320)] + [{"top_p": 1e-12}, {"top_k": 1}, {"min_p": 1.0}]


@pytest.mark.parametrize("options", NARROW, ids=str)
def test_narrow_corners_take_the_likeliest(model, requests_of, options):
    likeliest = draw(model, requests_of([PROMPT]), temperature=0)[0].completion_ids
    for one in draw(model, requests_of([PROMPT] * 20), **options):
        assert one.completion_ids == likeliest
        assert one.logprobs == pytest.approx((0.0, 0.0), abs=1e-5)


@pytest.mark.parametrize(
    "options", [{"top_k": 8}, {"top_k": 10_000}, {"top_p": 1}, {"min_p": 0.0}, {"min_p": 1e-12}], ids=str
)
def test_wide_corners_change_nothing(model, requests_of, options):
    requests = requests_of([PROMPT] * 50)
    plain = draw(model, requests)
    for one, same in zip(draw(model, requests, **options), plain, strict=True):
        assert one.completion_ids == same.completion_ids
        assert one.logprobs == pytest.approx(same.logprobs, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("cache", [None, "static"])
def test_other_types_of_weights(tiny_model, requests_of, dtype, cache):
    model = tiny_model("qwen3").to(dtype)
    generator = TransformersGenerator(model, cache_implementation=cache)
    for one in generator.generate(requests_of([(5, 9, 3), (7,)] * 4), SamplingOptions(12, seed=3)):
        prompt = [(5, 9, 3), (7,)][one.index % 2]
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *one.completion_ids]])).logits[0, len(prompt) - 1 : -1].float()
        expected = logits.log_softmax(-1).gather(1, torch.tensor(one.completion_ids)[:, None]).squeeze(1)
        assert one.logprobs == pytest.approx(expected.tolist(), abs=0.2 if dtype is torch.bfloat16 else 0.03)


def test_a_sum_that_rounds_lends_no_token_a_share():
    probabilities = torch.tensor([[0.5, 0.0, 0.5], [0.25, 0.75, 0.0], [0.25, 0.75, 0.0]])
    assert with_probability(torch.tensor([[1], [3], [0]]), probabilities).tolist() == [[0], [1], [0]]
