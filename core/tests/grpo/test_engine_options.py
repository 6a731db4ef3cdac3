"""What the fields named vllm_* become: the options of an engine in the process, and those of the servers' client."""

from __future__ import annotations

import importlib

import pytest
import torch
from plaudit.grpo import GRPOConfig
from plaudit.grpo.assembly import sampling_options
from plaudit.grpo.forward.precise_head import cast_head
from plaudit.grpo.generating.colocating import build_colocated_generator
from plaudit.grpo.generating.serving import build_server_generator
from tiny_policy import make_model

COLOCATED = [
    ("vllm_model_impl", "transformers", "model_impl"),
    ("vllm_max_model_length", 640, "max_model_length"),
    ("vllm_gpu_memory_utilization", 0.42, "memory_share"),
    ("vllm_tensor_parallel_size", 2, "tensor_parallel"),
    ("vllm_enable_sleep_mode", True, "sleeps"),
    ("trust_remote_code", True, "trust_remote_code"),
]
SERVED = [
    ("vllm_server_timeout", 12.0, "timeout_s"),
    ("vllm_request_timeout", 34.0, "request_timeout_s"),
    ("vllm_group_port", 50123, "group_port"),
    ("vllm_importance_sampling_correction", False, "candidates"),
]


@pytest.fixture
def options_of(monkeypatch, tmp_path):
    """Calls a builder with a generator in place that keeps its options."""

    def build(module, name, builder, **fields):
        made = []
        monkeypatch.setattr(importlib.import_module(module), name, lambda *given, **more: made.extend(given))
        args = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, report_to=[], use_vllm=True, **fields)
        builder(args)
        return made

    return build


def options_among(given):
    return next(value for value in given if type(value).__name__ in ("EngineOptions", "ServerOptions"))


@pytest.mark.parametrize(("field", "value", "option"), COLOCATED)
def test_an_engine_in_the_process(options_of, field, value, option):
    model = make_model()

    def build(args):
        build_colocated_generator(args, model, None, sampling_options(args))

    where = ("plaudit.rollout.vllm.colocate", "ColocatedGenerator", build)
    assert getattr(options_among(options_of(*where)), option) != value
    assert getattr(options_among(options_of(*where, **{field: value})), option) == value


def test_an_engine_computes_in_what_the_layers_do(options_of):
    model = make_model(dtype=torch.bfloat16)
    cast_head(model)

    def build(args):
        build_colocated_generator(args, model, None, sampling_options(args))

    made = options_of("plaudit.rollout.vllm.colocate", "ColocatedGenerator", build)
    assert options_among(made).dtype == "bfloat16"


@pytest.mark.parametrize(("field", "value", "option"), SERVED)
def test_servers(options_of, field, value, option):
    def build(args):
        build_server_generator(args, None, None, None)

    where = ("plaudit.rollout.vllm.server", "VLLMServerGenerator", build)
    assert getattr(options_among(options_of(*where)), option) != value
    assert getattr(options_among(options_of(*where, **{field: value})), option) == value
