"""Stand-in servers on loopback, and generators that talk to them.

The folder is not named vllm: its parent is on sys.path, where it would be taken for the package.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from plaudit.rollout.vllm.server import ServerOptions, VLLMServerGenerator

sys.path.append(str(Path(__file__).parent))
from stand_ins import FakeVLLM, Policy, close_all


@pytest.fixture
def servers():
    made = []

    def start(count=1):
        made.extend(FakeVLLM() for _ in range(count))
        return made[-count:]

    yield start
    close_all(made)


@pytest.fixture
def connect():
    made = []

    def connected(servers, policy=None, **more):
        urls = [server.url for server in servers]
        settings = {"timeout_s": 20.0, "request_timeout_s": 20.0, "group_port": 0, **more}
        made.append(VLLMServerGenerator(policy or Policy(), None, urls, ServerOptions(**settings)))
        return made[-1]

    yield connected
    for generator in made:
        generator.close()
