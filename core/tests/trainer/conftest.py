"""Fixtures with the tiny policy, and this folder's helper modules on the path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
torch.set_num_threads(1)
# Helper modules of these tests lie beside them, which pytest's importlib mode does not look at.
sys.path.insert(0, str(Path(__file__).parent))

from tiny_policy import make_model, make_tokenizer  # noqa: E402


@pytest.fixture
def tokenizer():
    return make_tokenizer()


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def build_model():
    """Makes a tiny model: `build_model(seed, dtype=, tied=, **config)`."""
    return make_model


@pytest.fixture
def build_tokenizer():
    """Makes the tokenizer: `build_tokenizer(chat=)`."""
    return make_tokenizer


@pytest.fixture
def saved(tmp_path):
    """The folder of a tiny model with its tokenizer."""
    make_model(tied=False).save_pretrained(tmp_path / "model")
    make_tokenizer().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")
