"""Which models' decode steps are compiled or captured, and that a compiled step writes the same."""

from __future__ import annotations

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from beside_generate import GREEDY, PROMPTS, ours, reference
from plaudit import UsageError
from plaudit.rollout.replaying import check_compiling, graphs_pay, why_not_replayed
from plaudit.rollout.transformers_generator import TransformersGenerator

NOT_REPLAYED = {"llama_dynamic_rotary": r"rotary embedding \(dynamic\) depends on the longest row"}


def test_which_models_are_replayed(tiny_model, variant):
    model = tiny_model(variant)
    if variant not in NOT_REPLAYED:
        assert why_not_replayed(model) is None
        return
    with pytest.raises(UsageError, match=f"compile_decoding does not fit LlamaForCausalLM: .*{NOT_REPLAYED[variant]}"):
        TransformersGenerator(model, compile_decoding=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda model: setattr(model, "hf_quantizer", SimpleNamespace(is_compileable=False)), "quantized weights"),
        (lambda model: setattr(model.model.layers[0], "_get_fsdp_state", None), "spread over the ranks"),
        (lambda model: setattr(model.lm_head.weight, "ds_id", 3), "spread over the ranks"),
        (lambda model: setattr(model.lm_head, "weight", on_no_device(model)), r"on several devices (cpu, meta)"),
        (lambda model: setattr(model, "_can_compile_fullgraph", False), "transformers says that it cannot"),
        (lambda model: setattr(model.config, "_attn_implementation", "flash_attention_2"), "its attention is 'flash_"),
        (lambda model: setattr(model.config, "layer_types", ["linear_attention"] * 3), "layers of type linear_attent"),
        (lambda model: setattr(model.config, "num_kv_shared_layers", 1), "layers share keys and values"),
    ],
)
def test_what_keeps_a_step_from_being_replayed(tiny_model, change, reason):
    model = tiny_model("qwen2")
    assert why_not_replayed(model) is None
    assert not graphs_pay(model, 512)  # it is on a CPU
    change(model)
    assert reason in why_not_replayed(model)


def on_no_device(model):
    return torch.nn.Parameter(model.lm_head.weight.to("meta"))


@pytest.mark.parametrize("cache", ["dynamic", "quantized"])
def test_compiling_excludes_other_caches(tiny_model, cache):
    with pytest.raises(UsageError, match=f"cache_implementation is '{cache}'; set 'static' or leave it out"):
        TransformersGenerator(tiny_model("qwen2"), cache_implementation=cache, compile_decoding=True)


def test_compiling_excludes_ranks_in_step(tiny_model):
    with pytest.raises(UsageError, match="in step with other ranks"):
        TransformersGenerator(tiny_model("qwen2"), compile_decoding=True, in_step=lambda busy: busy)


def test_without_a_compiler_it_is_refused_before_a_model_is_touched(monkeypatch):
    monkeypatch.setattr("plaudit.rollout.replaying.which", lambda name: None)
    with pytest.raises(UsageError, match=r"needs a C\+\+ compiler, and there is no"):
        check_compiling(None, "cpu")
    check_compiling(None, "cuda")


def eagerly(monkeypatch, graphs):
    """Trace the step as torch.compile does, and run what was traced without a compiler."""
    compiled = torch.compile

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(
        torch, "compile", lambda step, **_: compiled(step, dynamic=True, fullgraph=True, backend=backend)
    )


@pytest.mark.parametrize("name", ["qwen2", "gemma3_sliding"])
def test_one_trace_serves_all_rows_columns_and_calls(tiny_model, requests_of, monkeypatch, name):
    """But a single row has one of its own, as torch.compile takes the number 1 for a constant."""
    graphs = []
    eagerly(monkeypatch, graphs)
    torch._dynamo.reset()
    model = tiny_model(name)
    generator = TransformersGenerator(model, compile_decoding=True)
    for count in (4, 6, 5):
        limits = [70, 40, 9, 70, 20, 70]
        requests = [replace(one, max_new_tokens=limits[one.index]) for one in requests_of(PROMPTS[:count])]
        done = {one.index: one for one in generator.generate(requests, replace(GREEDY, max_new_tokens=70))}
        assert len(done) == count
        with torch.no_grad():
            model.lm_head.weight.mul_(1.01)  # learns between two calls
    assert 1 <= len(graphs) <= 2


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["qwen2", "qwen3_sliding"])
def test_a_compiled_step_writes_what_generate_does(tiny_model, requests_of, name):
    if not any(map(shutil.which, ("g++", "clang++", "c++"))):
        pytest.skip("torch.compile needs a C++ compiler")
    model, sampling = tiny_model(name), replace(GREEDY, max_new_tokens=70)
    done = ours(model, requests_of(PROMPTS), sampling, compile_decoding=True)
    plain = ours(model, requests_of(PROMPTS), sampling)
    expected = {prompt: reference(model, prompt, max_new_tokens=70) for prompt in set(PROMPTS)}
    for index, prompt in enumerate(PROMPTS):
        assert done[index].completion_ids == expected[prompt]
        assert done[index].logprobs == pytest.approx(plain[index].logprobs, abs=1e-4)
