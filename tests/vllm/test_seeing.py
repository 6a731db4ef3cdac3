"""Vision-language models with vLLM, in the trainer and through a server: what it sees is what the policy sees."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm")
pytest.importorskip("torchvision")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from plaudit.grpo import GRPOConfig, GRPOTrainer  # noqa: E402
from plaudit.grpo.policy.seeing import prompt_codec  # noqa: E402
from plaudit.grpo.rows.prompts import as_row  # noqa: E402
from plaudit.rollout.media import model_inputs  # noqa: E402
from plaudit.rollout.protocol import Request, SamplingOptions  # noqa: E402
from plaudit.rollout.vllm.colocate import ColocatedGenerator  # noqa: E402
from plaudit.rollout.vllm.engine import EngineOptions  # noqa: E402
from plaudit.rollout.vllm.server import ServerOptions, VLLMServerGenerator  # noqa: E402
from seeing_models import IMAGE, asked, make_seeing  # noqa: E402
from served import run_file_for, served  # noqa: E402
from vllm_models import perturb  # noqa: E402

GREEDY = SamplingOptions(
    max_new_tokens=8, temperature=0.0, generation_kwargs={"eos_token_id": [], "suppress_tokens": [IMAGE]}
)


def requests_for(processor):
    prepared = prompt_codec(processor, {}).prepare([as_row(row) for row in asked(6)])
    return [Request(index, one.ids, media=one.media) for index, one in enumerate(prepared)]


def logits_of(model, request, completion):
    ids = torch.tensor([[*request.prompt_ids, *completion]])
    with torch.no_grad():
        seen = model_inputs([request.media], [0], ids.shape[1], dtype=torch.float32, device="cpu")
        logits = model(input_ids=ids, **seen).logits[0, len(request.prompt_ids) - 1 : -1]
    return logits.index_fill(-1, torch.tensor(IMAGE), -torch.inf)  # written, it would stand for no image


def assert_greedy(model, request, made):
    """Each token is the policy's most likely one, with the policy's log-prob."""
    table = logits_of(model, request, made.completion_ids).log_softmax(-1)
    assert list(made.completion_ids) == table.argmax(-1).tolist()
    expected = table.gather(-1, torch.tensor(made.completion_ids)[:, None])[:, 0]
    assert made.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_the_same_as_the_policy_after_each_of_two_updates(request):
    model, processor = make_seeing()
    generator = ColocatedGenerator(
        model, processor.tokenizer, EngineOptions(16, 128, memory_share=0.05), processor=processor
    )
    request.addfinalizer(generator.close)
    requests = requests_for(processor)
    assert [len(one.media.sources) for one in requests] == [1, 2, 0, 1, 2, 0]
    for step in range(3):
        generator.refresh(step)
        for made in generator.generate(requests, GREEDY):
            assert_greedy(model, requests[made.index], made)
        perturb(model, step)


def test_the_same_through_a_server_after_each_of_two_updates(tmp_path, request):
    model, processor = make_seeing()
    run_file = run_file_for(make_seeing(seed=9)[0], processor, tmp_path)
    requests = requests_for(processor)
    with served(run_file, log=tmp_path / "server.log") as url:
        generator = VLLMServerGenerator(model, processor.tokenizer, [url], ServerOptions(group_port=0))
        request.addfinalizer(generator.close)
        for step in range(3):
            generator.refresh(step)
            found = {made.index: made for made in generator.generate(requests, GREEDY)}
            assert len(found) == len(requests)
            for made in found.values():
                assert_greedy(model, requests[made.index], made)
            perturb(model, step)


def test_a_run_on_pictures(tmp_path, request):
    model, processor = make_seeing()
    before = model.get_input_embeddings().weight.detach().clone()
    config = GRPOConfig(
        output_dir=str(tmp_path), use_cpu=True, use_vllm=True, vllm_gpu_memory_utilization=0.05,
        vllm_max_model_length=128, num_generations=4, per_device_train_batch_size=8, max_completion_length=8,
        learning_rate=1e-3, top_k=40, max_steps=2, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True,
    )  # fmt: skip
    rows = Dataset.from_list(asked(6))
    trainer = GRPOTrainer(model, lambda completions, **_: [len(str(c)) / 9 for c in completions], config, rows,
                          processing_class=processor)  # fmt: skip
    request.addfinalizer(trainer.source.collector.writer.close)
    trainer.train()
    gaps = [line["sampling/sampling_logp_difference/max"] for line in trainer.state.log_history if "reward" in line]
    assert len(gaps) == 2
    # Over the candidates: the image's token is forbidden, and counts in the policy's log-probs without top_k.
    assert max(gaps) < 1e-3
    assert not torch.equal(before, model.get_input_embeddings().weight)
