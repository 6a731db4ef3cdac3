"""Puts this folder's helper modules on the path, and forgets the counters of the test before."""

import sys
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def none_made():
    from counter import Counter

    Counter.made = []
