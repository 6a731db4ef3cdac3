"""A real `vllm serve` beside transformers, on the same weights: tokens, log-probs, live updates, a run that learns."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("vllm")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

import torch  # noqa: E402
from plaudit.cli import main  # noqa: E402
from plaudit.rollout.protocol import Request, SamplingOptions  # noqa: E402
from plaudit.rollout.structured import StructuredOutput  # noqa: E402
from plaudit.rollout.transformers_generator import TransformersGenerator  # noqa: E402
from plaudit.rollout.vllm.server import ServerOptions, VLLMServerGenerator  # noqa: E402
from served import run_file_for, served  # noqa: E402
from vllm_models import make_model, make_tokenizer, perturb  # noqa: E402

PROMPTS = [(7, 8, 9), (20, 21, 22, 23, 24, 25), (30,), tuple(range(5, 45))]
REQUESTS = [Request(index, prompt) for index, prompt in enumerate(PROMPTS)]
GREEDY = SamplingOptions(max_new_tokens=24, temperature=0.0, generation_kwargs={"eos_token_id": []})


@pytest.fixture(scope="module", params=["tied", "untied"])
def server(request, tmp_path_factory):
    """(URL, tied): a server that began with other weights than the tests send."""
    folder, tied = tmp_path_factory.mktemp(request.param), request.param == "tied"
    run_file = run_file_for(make_model(tied=tied, seed=9), make_tokenizer(), folder)
    with served(run_file, log=folder / "server.log") as url:
        yield url, tied


@pytest.fixture
def generator_for(server):
    made = []

    def connect(model, **more):
        options = ServerOptions(group_port=0, **more)
        made.append(VLLMServerGenerator(model, make_tokenizer(), [server[0]], options))
        return made[-1]

    yield connect
    for generator in made:
        generator.close()


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


@pytest.mark.parametrize("adapted", [False, True])
def test_the_same_after_each_of_three_updates(adapted, server, generator_for):
    model = make_model(tied=server[1])
    if adapted:
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
        model = get_peft_model(model, config).eval()
    generator = generator_for(model)
    before = None
    for step in range(4):
        generator.refresh(step)
        assert_same_as_transformers(generator, model)
        now = written(generator)[0].completion_ids
        assert now != before
        before = now
        perturb(model, step)


def test_the_same_seed_gives_the_same_completions(generator_for, server):
    generator = generator_for(make_model(tied=server[1]))
    generator.refresh(0)
    sampling = SamplingOptions(max_new_tokens=16, seed=5)
    first, second = written(generator, sampling=sampling), written(generator, sampling=sampling)
    assert {index: made.completion_ids for index, made in first.items()} == {
        index: made.completion_ids for index, made in second.items()
    }


def test_structured_outputs_are_kept(generator_for, server):
    generator = generator_for(make_model(tied=server[1]))
    generator.refresh(0)
    tokenizer = make_tokenizer()

    def texts(**structured):
        sampling = SamplingOptions(max_new_tokens=40, structured=StructuredOutput(**structured))
        return [tokenizer.decode(made.completion_ids, skip_special_tokens=True) for made in
                written(generator, sampling=sampling).values()]  # fmt: skip

    assert all(re.fullmatch(r"[0-9]{3}", text) for text in texts(regex="[0-9]{3}"))
    assert all(text in ("yes", "no") for text in texts(choice=("yes", "no")))


def test_candidates_of_top_k(generator_for, server):
    model = make_model(tied=server[1])
    generator = generator_for(model, candidates=True)
    generator.refresh(0)
    made = written(generator, sampling=SamplingOptions(max_new_tokens=8, top_k=4, top_p=0.9))
    for index, prompt in enumerate(PROMPTS):
        one = made[index]
        with torch.no_grad():
            table = model(torch.tensor([[*prompt, *one.completion_ids]])).logits[0]
        for place, (token, among) in enumerate(zip(one.completion_ids, one.candidates, strict=True)):
            logits = table[len(prompt) - 1 + place]
            assert token in among
            assert len(among) <= 4
            assert set(among) <= set(logits.topk(4).indices.tolist())
            expected = logits[list(among)].log_softmax(-1)[list(among).index(token)].item()
            assert one.logprobs[place] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("staleness", [0, 1])
def test_the_quickstart_learns_through_a_server(staleness, quickstart_server, tmp_path):
    arguments = {
        "output_dir": str(tmp_path), "config.use_vllm": True, "config.vllm_mode": "server",
        "config.vllm_server_base_url": quickstart_server, "config.vllm_group_port": 0, "config.max_steps": 30,
        "config.max_staleness": staleness,
    }  # fmt: skip
    settings = [part for name, value in arguments.items() for part in ("--set", f"{name}={json.dumps(value)}")]
    assert main(["train", "examples/quickstart.toml", "--overwrite", *settings]) == 0
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    rewards = [line["reward"] for line in lines if "reward" in line]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.15
    gaps = [line["sampling/sampling_logp_difference/mean"] for line in lines if "reward" in line]
    assert max(gaps) < 1e-3 if staleness == 0 else max(gaps) > 1e-3


@pytest.fixture(scope="module")
def quickstart_server(tmp_path_factory):
    with served("examples/quickstart.toml", log=tmp_path_factory.mktemp("quickstart") / "server.log") as url:
        yield url
