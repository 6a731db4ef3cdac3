"""The pages of other trainers: every block runs, with a tiny model and a free port in place of what they name."""

from __future__ import annotations

import asyncio
import importlib
import json
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing, contextmanager
from socket import socket

import pytest
import yaml
from make_neighbours import python_of
from page_blocks import blocks_of, run_python
from plaudit.cli import main

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
SMALL = "max_steps=1, use_cpu=True, bf16=False, num_generations=2, per_device_train_batch_size=2, report_to=[], "
# Inspect estimates tokens with a vocabulary that it downloads; the scores do not depend on it.
NO_DOWNLOAD = """
from inspect_ai.model._model import ModelAPI

async def count(self, text):
    return len(text) // 4

ModelAPI.count_text_tokens = count
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def tiny_model():
    from plaudit.run.model_files import find_model
    from plaudit.run.schema import ModelSection

    return str(find_model(ModelSection(path="quickstart")).path)


@pytest.mark.peer
def test_trl(folder, tiny_model):
    script, run, command = blocks_of("bridges/trl")
    body = script.body.replace(MODEL, tiny_model).replace("max_steps=100", SMALL + "max_completion_length=4")
    run_python(sys.executable, body, folder)
    (folder / run.title).write_text(run.body.replace(MODEL, "quickstart"), encoding="utf-8")
    small = ["max_steps=1", "max_completion_length=8", "use_cpu=true"]
    line = shlex.split(command.body)[1:] + [part for one in small for part in ("--set", f"config.{one}")]
    assert main(line) == 0
    assert (folder / "runs" / "engine" / "metrics.jsonl").is_file()


def test_verl(folder):
    named, optional, file, asks = blocks_of("bridges/verl")
    for block, solution in ((named, "4"), (optional, "4.001")):
        told = yaml.safe_load(block.body)["reward"]["custom_reward_function"]
        module = importlib.import_module(told["path"].removeprefix("pkg://"))
        function = getattr(module, told["name"])
        answer = asyncio.run(function("sums", solution, "4", {"level": 2}, **told.get("reward_kwargs", {})))
        assert answer["score"] == 1.0
    (folder / file.title).write_text(file.body, encoding="utf-8")
    run_python(sys.executable, asks.body, folder)


def test_openrlhf(folder):
    file, asks, serves, posts = blocks_of("bridges/openrlhf")
    (folder / file.title).write_text(file.body, encoding="utf-8")
    run_python(sys.executable, asks.body, folder)
    with closing(socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with serving(serves.body.replace("8077", port), port):
        run_python(sys.executable, posts.body.replace("8077", port), folder)


@contextmanager
def serving(line, port):
    """`plaudit serve …` until the block ends."""
    started = subprocess.Popen([sys.executable, "-m", *shlex.split(line)])
    try:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
                    assert json.load(answer)["status"] == "ok"
                break
            except urllib.error.URLError:
                assert started.poll() is None, "the server ended"
                time.sleep(0.1)
        yield
    finally:
        started.terminate()
        started.wait()


@pytest.mark.slow
def test_inspect(folder):
    python = python_of("inspect")
    if not python.exists():
        pytest.skip("`make neighbours` makes its environment")
    (block,) = blocks_of("bridges/inspect")
    run_python(python, NO_DOWNLOAD + block.body, folder)
