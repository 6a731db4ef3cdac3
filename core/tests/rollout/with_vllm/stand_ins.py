"""What the tests of the vLLM server generator share: a policy, requests, and ways to wait."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import torch
from plaudit.rollout.protocol import Request, SamplingOptions

sys.path.append(str(Path(__file__).parents[1]))
from fake_vllm import RIGHT, FakeVLLM, close_all

__all__ = ["PROMPTS", "RIGHT", "SAMPLING", "FakeVLLM", "Policy", "by_index", "close_all", "eventually", "in_thread"]

PROMPTS = [Request(index, (10 + index, 3)) for index in range(8)]
SAMPLING = SamplingOptions(max_new_tokens=4)


class Policy(torch.nn.Module):
    """Weights, a device and end tokens are all that the generator looks at."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3, 2), 0.001))
        self.bias = torch.nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))
        self.device = torch.device("cpu")
        self.generation_config = type("Config", (), {"eos_token_id": [1, 7]})()

    def learn(self):
        with torch.no_grad():
            self.weight += 0.001


def by_index(generated):
    return sorted(generated, key=lambda made: made.index)


def in_thread(work, *arguments):
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def eventually(holds, seconds=20.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False
