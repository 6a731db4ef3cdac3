"""Generators on tiny models. These tests run in .venv-vllm: `make test-slow`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from vllm_models import make_model, make_tokenizer


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture
def build_model():
    return make_model


@pytest.fixture
def colocated(tokenizer):
    """Starts a generator on a model; it is closed after the test."""
    from plaudit.rollout.vllm.colocate import ColocatedGenerator
    from plaudit.rollout.vllm.engine import EngineOptions

    made = []

    def start(model, *, candidates=False, **options):
        options = {"rows": 16, "memory_share": 0.05, "max_model_length": 128, **options}
        made.append(ColocatedGenerator(model, tokenizer, EngineOptions(**options), candidates=candidates))
        return made[-1]

    yield start
    for generator in made:
        generator.close()
