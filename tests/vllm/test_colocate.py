"""The colocated engine beside transformers, on the same weights: tokens, log-probs, updates, structured output."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("vllm")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

import torch  # noqa: E402
from plaudit.errors import UsageError  # noqa: E402
from plaudit.rollout.protocol import Request, SamplingOptions  # noqa: E402
from plaudit.rollout.structured import StructuredOutput  # noqa: E402
from plaudit.rollout.transformers_generator import TransformersGenerator  # noqa: E402
from plaudit.rollout.vllm.engine import EngineOptions  # noqa: E402
from vllm_models import perturb  # noqa: E402

PROMPTS = [(7, 8, 9), (20, 21, 22, 23, 24, 25), (30,), tuple(range(5, 45))]
REQUESTS = [Request(index, prompt) for index, prompt in enumerate(PROMPTS)]
GREEDY = SamplingOptions(max_new_tokens=24, temperature=0.0, generation_kwargs={"eos_token_id": []})


def written(generator, requests=REQUESTS, sampling=GREEDY):
    return {made.index: made for made in generator.generate(requests, sampling)}


def logprobs_of(model, prompt, completion, temperature=1.0):
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *completion]])).logits[0].float() / temperature
    table = logits.log_softmax(-1)
    return [table[len(prompt) - 1 + place, token].item() for place, token in enumerate(completion)]


def assert_same_as_transformers(generator, model):
    ours, theirs = written(generator), written(TransformersGenerator(model))
    for index, prompt in enumerate(PROMPTS):
        assert ours[index].completion_ids == theirs[index].completion_ids
        expected = logprobs_of(model, prompt, ours[index].completion_ids)
        assert ours[index].logprobs == pytest.approx(expected, abs=1e-4)
    sampled = written(generator, sampling=SamplingOptions(max_new_tokens=24, temperature=0.7))
    for index, prompt in enumerate(PROMPTS):
        expected = logprobs_of(model, prompt, sampled[index].completion_ids, 0.7)
        assert sampled[index].logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", ["Qwen3", "Qwen2", "Llama"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_same_after_each_of_three_updates(family, tied, build_model, colocated):
    if family != "Qwen3" and tied is False:
        pytest.skip("one family is enough for both")
    model = build_model(family, tied=tied)
    generator = colocated(model)
    before = None
    for step in range(4):
        generator.refresh(step)
        assert_same_as_transformers(generator, model)
        now = written(generator)[0].completion_ids
        assert now != before
        before = now
        perturb(model, step)


@pytest.mark.parametrize("tied", [True, False])
def test_the_same_with_an_adapter_after_each_of_three_updates(tied, build_model, colocated):
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
    model = get_peft_model(build_model(tied=tied), config).eval()
    generator = colocated(model)
    for step in range(4):
        generator.refresh(step)
        assert_same_as_transformers(generator, model)
        perturb(model, step)


def test_bfloat16(build_model, colocated):
    model = build_model().bfloat16()
    generator = colocated(model, dtype="bfloat16")
    generator.refresh(0)
    made = written(generator, sampling=SamplingOptions(max_new_tokens=16))
    for index, prompt in enumerate(PROMPTS):
        expected = logprobs_of(model, prompt, made[index].completion_ids)
        assert made[index].logprobs == pytest.approx(expected, abs=0.3)


def test_nothing_else_changes(build_model, colocated):
    import os

    model = build_model()
    torch.manual_seed(3)
    random.seed(3)
    function, count, variables = torch.set_num_threads, torch.get_num_threads(), dict(os.environ)
    expected = torch.rand(3), random.random()
    torch.manual_seed(3)
    random.seed(3)
    generator = colocated(model)
    assert torch.equal(torch.rand(3), expected[0])
    assert random.random() == expected[1]
    assert torch.set_num_threads is function
    assert torch.get_num_threads() == count
    assert {name: os.environ.get(name) for name in variables} == variables
    assert not {"MASTER_PORT", "RANK", "WORLD_SIZE"} & (os.environ.keys() - variables.keys())
    assert torch.distributed.is_initialized()
    generator.close()
    generator.close()
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("seed", [None, 5])
def test_seeds_and_random_states_decide_what_is_written(seed, build_model, colocated):
    generator = colocated(build_model())
    generator.refresh(0)
    same = [Request(index, PROMPTS[1]) for index in range(6)]
    sampling = SamplingOptions(max_new_tokens=12, seed=seed)
    found = []
    for state in (1, 1, 2):
        torch.manual_seed(state)
        found.append({index: made.completion_ids for index, made in written(generator, same, sampling).items()})
    assert found[0] == found[1]
    assert (found[0] == found[2]) == (seed is not None)
    assert len(set(found[0].values())) > 3
    own = [Request(0, PROMPTS[1], seed=9), Request(1, PROMPTS[0], seed=9)]
    alone = written(generator, own[:1], sampling)[0].completion_ids
    assert written(generator, own, sampling)[0].completion_ids == alone


def test_completions_come_as_they_finish_and_an_early_end_frees_the_rest(build_model, colocated):
    model = build_model()
    generator = colocated(model)
    generator.refresh(0)
    ends = SamplingOptions(max_new_tokens=100, generation_kwargs={"eos_token_id": list(range(5, 20))})
    making = generator.generate([Request(index, PROMPTS[1]) for index in range(8)], ends)
    first = next(making)
    assert first.finish_reason == "stop"
    assert generator._engine.has_unfinished_requests()
    making.close()
    assert not generator._engine.has_unfinished_requests()
    perturb(model, 1)
    generator.refresh(1)
    assert_same_as_transformers(generator, model)


def test_an_engine_that_sleeps_gets_its_weights_again(build_model, colocated, monkeypatch):
    """The order of calls alone: on a CPU vLLM frees nothing."""
    model = build_model()
    generator = colocated(model)
    monkeypatch.setattr(generator, "_options", EngineOptions(rows=16, sleeps=True))
    pushes, push = [], generator._push
    monkeypatch.setattr(generator, "_push", lambda: pushes.append(push()))
    generator.refresh(0)
    assert len(pushes) == 1
    assert_same_as_transformers(generator, model)  # two calls: it sleeps after each
    assert len(pushes) == 2
    perturb(model, 1)
    generator.refresh(1)
    assert len(pushes) == 3
    assert_same_as_transformers(generator, model)
    assert len(pushes) == 4


@pytest.mark.parametrize(
    ("structured", "holds"),
    [
        (StructuredOutput(regex="[0-9]{3}-[a-c]{2}"), lambda text: text[3] == "-" and text[:3].isdigit()),
        (StructuredOutput(choice=("yes", "no")), lambda text: text in ("yes", "no")),
    ],
)
def test_structured_output(structured, holds, build_model, colocated, tokenizer):
    generator = colocated(build_model())
    generator.refresh(0)
    made = written(generator, sampling=SamplingOptions(max_new_tokens=20, structured=structured))
    for found in made.values():
        assert found.finish_reason == "stop"
        assert holds(tokenizer.decode(found.completion_ids, skip_special_tokens=True))


@pytest.mark.parametrize(
    "options",
    [{"top_k": 5}, {"top_k": 20, "top_p": 0.6}, {"top_k": 30, "min_p": 0.2, "temperature": 0.8}],
)
def test_log_probs_are_normalised_over_the_candidates(options, build_model, colocated):
    model = build_model(initializer_range=0.1)
    generator = colocated(model, candidates=True, logprobs=options["top_k"])
    generator.refresh(0)
    sizes = set()
    for index, made in written(generator, sampling=SamplingOptions(max_new_tokens=16, **options)).items():
        prompt, ids = PROMPTS[index], made.completion_ids
        with torch.no_grad():
            table = model(torch.tensor([[*prompt, *ids]])).logits[0] / options.get("temperature", 1.0)
        assert len(made.candidates) == len(ids)
        for place, (token, candidates) in enumerate(zip(ids, made.candidates, strict=True)):
            assert token in candidates
            sizes.add(len(candidates))
            logits = table[len(prompt) - 1 + place]
            expected = logits[token] - logits[list(candidates)].logsumexp(-1)
            assert made.logprobs[place] == pytest.approx(expected.item(), abs=1e-4)
    assert max(sizes) <= options["top_k"]
    if len(options) > 1:
        assert len(sizes) > 1


def test_bad_requests_are_refused(build_model, colocated):
    generator = colocated(build_model(), max_model_length=32)
    generator.refresh(0)
    with pytest.raises(UsageError, match=r"prompt of 40 tokens, but vLLM takes 32.*vllm_max_model_length"):
        generator.generate(REQUESTS, GREEDY)
    with pytest.raises(UsageError, match="empty prompt"):
        generator.generate([Request(0, ())], GREEDY)
    with pytest.raises(UsageError, match="'top_kk' is not supported"):
        generator.generate(REQUESTS[:1], SamplingOptions(generation_kwargs={"top_kk": 1}))


def test_a_model_that_vllm_cannot_run_is_refused(build_model, colocated):
    with pytest.raises(UsageError, match="vLLM does not start"):
        colocated(build_model(head_dim=24))


def test_quantised_weights_are_refused(build_model, colocated):
    model = build_model()
    model.is_quantized = True
    with pytest.raises(UsageError, match="quantised, which vLLM in the trainer cannot take over"):
        colocated(model)


def test_an_adapter_on_tied_embeddings_is_refused(build_model, colocated):
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, target_modules=["embed_tokens"], task_type="CAUSAL_LM")
    with pytest.raises(UsageError, match="ties to its head"):
        colocated(get_peft_model(build_model(), config))
