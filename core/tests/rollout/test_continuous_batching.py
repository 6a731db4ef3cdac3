"""transformers' continuous batching writes what `generate()` writes, and refuses what it cannot do."""

import pytest
import torch
from plaudit import UsageError
from plaudit.rollout.continuous_batching import ContinuousBatchingGenerator
from plaudit.rollout.protocol import Request, SamplingOptions
from plaudit.rollout.structured import StructuredOutput

PROMPTS = [(5, 9, 3), (7,), (5, 9, 3), (4, 8, 15, 16, 23, 4, 8, 15, 16, 23, 11, 30)]
SMALL = {"num_blocks": 16, "max_batch_tokens": 64, "page_size": 16}


def written(model, requests, **options):
    done = ContinuousBatchingGenerator(model, options=SMALL).generate(requests, SamplingOptions(**options))
    return {generated.index: generated for generated in done}


@pytest.mark.parametrize("variant", ["qwen2", "qwen3", "llama", "smollm2", "gemma"])
def test_greedy_is_that_of_generate(tiny_model, requests_of, variant):
    model = tiny_model(variant)
    done = written(model, requests_of(PROMPTS), max_new_tokens=12, temperature=0)
    for place, prompt in enumerate(PROMPTS):
        ids = torch.tensor([prompt])
        expected = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12
        )
        assert done[place].completion_ids == tuple(expected[0, len(prompt) :].tolist())
        assert done[place].finish_reason == ("stop" if done[place].completion_ids[-1] == 1 else "length")


def test_sampled_logprobs_are_the_policys_and_model_and_random_state_are_left_alone(tiny_model, requests_of):
    model = tiny_model("qwen3")
    model.train()
    model.model.layers[1].eval()
    training = [module.training for module in model.modules()]
    torch.manual_seed(3)
    attention = model.config._attn_implementation

    done = written(model, requests_of(PROMPTS), max_new_tokens=8, temperature=0.7)

    after = torch.rand(3)
    assert [module.training for module in model.modules()] == training
    assert model.config._attn_implementation == attention
    torch.manual_seed(3)
    again = written(model, requests_of(PROMPTS), max_new_tokens=8, temperature=0.7)
    assert again == done
    assert torch.equal(torch.rand(3), after)
    for place, prompt in enumerate(PROMPTS):
        ids = done[place].completion_ids
        with torch.no_grad():
            logits = model.eval()(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1] / 0.7
        expected = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).squeeze(1)
        assert done[place].logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_stream_may_be_closed_early(tiny_model, requests_of):
    model = tiny_model("qwen3")
    model.train()
    stream = ContinuousBatchingGenerator(model, options=SMALL).generate(
        requests_of(PROMPTS), SamplingOptions(max_new_tokens=20)
    )
    next(stream)
    stream.close()
    assert model.training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_p": 0.1}, "no min_p"),
        ({"repetition_penalty": 1.2, "stop": ("a",)}, "no repetition_penalty, stop"),
        ({"structured": StructuredOutput(regex="a")}, "no structured"),
        ({"generation_kwargs": {"min_new_tokens": 3}}, "no min_new_tokens"),
        ({"generation_kwargs": {"num_beams": 3}}, "'num_beams' is not supported"),
    ],
    ids=str,
)
def test_what_the_engine_cannot_do_is_refused_by_name(tiny_model, requests_of, options, message):
    with pytest.raises(UsageError, match=message):
        written(tiny_model("qwen3"), requests_of([(5,)]), **options)


def test_bad_requests_and_settings_are_refused(tiny_model):
    model = tiny_model("qwen3")
    generator = ContinuousBatchingGenerator(model, options=SMALL)
    with pytest.raises(UsageError, match="no seeds per request"):
        generator.generate([Request(0, (5,), seed=1)], SamplingOptions())
    with pytest.raises(UsageError, match="request 0 has an empty prompt"):
        generator.generate([Request(0, ())], SamplingOptions())
    with pytest.raises(UsageError, match="did you mean 'page_size'"):
        ContinuousBatchingGenerator(model, options={"page_sise": 16})
    with pytest.raises(UsageError, match="'seed' is set by the generator"):
        ContinuousBatchingGenerator(model, options={"seed": 16})


def test_each_request_may_have_a_limit_of_its_own(tiny_model):
    model, limits = tiny_model("qwen3"), [1, 3, None, 20]
    requests = [Request(i, p, max_new_tokens=limit) for i, (p, limit) in enumerate(zip(PROMPTS, limits, strict=True))]
    whole = written(model, [Request(i, p) for i, p in enumerate(PROMPTS)], max_new_tokens=6, temperature=0)
    done = written(model, requests, max_new_tokens=6, temperature=0)
    assert [done[i].completion_ids for i in range(4)] == [
        whole[i].completion_ids[: limit or 6] for i, limit in enumerate(limits)
    ]
    for one in done.values():
        assert one.finish_reason == ("stop" if one.completion_ids[-1] == 1 else "length")
    assert done[0].finish_reason == "length"
