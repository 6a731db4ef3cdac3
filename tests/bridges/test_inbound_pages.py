"""The pages of other systems' environments: every block runs, with a tiny model and a free port in place of theirs."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from contextlib import closing, contextmanager
from pathlib import Path
from socket import create_connection, socket
from time import sleep

import pytest
from make_neighbours import python_of
from page_blocks import blocks_of, run_python
from plaudit.run.runfile import parse_run

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
PORT = "8077"
HERE = Path(__file__).parent
TESTS = [HERE.parents[1] / "core" / "tests" / name for name in ("bridges", "agents")]
SMALL = "max_steps=1 num_generations=2 per_device_train_batch_size=2 max_completion_length=16 use_cpu=true".split()
SMALL_LINE = [part for one in SMALL for part in ("--set", f"config.{one}")]
SAVE = "from scripted import *; make_model().save_pretrained('model'); make_tokenizer().save_pretrained('model')"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ":".join(map(str, [tmp_path, *TESTS])))
    run_python(sys.executable, SAVE, tmp_path)
    return tmp_path


@pytest.fixture
def port():
    with closing(socket()) as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def files(page, folder, port=PORT):
    """Write the blocks that are files. Returns those that are run, by language."""
    loose = {}
    for block in blocks_of(f"bridges/{page}"):
        body = block.body.replace(MODEL, "model").replace(PORT, port)
        if block.title is None:
            loose[block.language] = body
        else:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
    return loose


def train(python=sys.executable, *more):
    line = [python, "-m", "plaudit", "train", "run.toml", *SMALL_LINE, *more]
    done = subprocess.run(line, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]


@contextmanager
def serving(line, port, python=sys.executable):
    started = subprocess.Popen([python, "-m", *shlex.split(line)])
    try:
        for _ in range(600):
            try:
                create_connection(("127.0.0.1", int(port)), timeout=1).close()
                break
            except OSError:
                assert started.poll() is None, "the server ended"
                sleep(0.1)
        yield
    finally:
        started.terminate()
        started.wait()


def neighbour(name):
    python = python_of(name)
    if not python.exists():
        pytest.skip(f"{name}: `make neighbours` makes its environment")
    return python


@pytest.mark.parametrize("page", ["ors", "nemo-gym"])
def test_a_server(folder, port, page):
    loose = files(page, folder, port)
    with serving(loose["sh"], port):
        run_python(sys.executable, loose["python"], folder)
        train()


def test_harbor(folder):
    run_python(sys.executable, files("harbor", folder)["python"], folder)
    train()


def test_reasoning_gym(folder):
    pytest.importorskip("reasoning_gym")
    run_python(sys.executable, files("reasoning-gym", folder)["python"], folder)
    train()


@pytest.mark.slow
def test_openenv(folder, port):
    python = neighbour("openenv")
    loose = files("openenv", folder, port)
    with serving(loose["sh"], port, python):
        run_python(python, loose["python"], folder)
        # A model that never acts has no score.
        train(sys.executable, "--set", "config.max_unscored_share=1")


@pytest.mark.slow
def test_verifiers(folder):
    python = neighbour("verifiers_rubric")
    loose = files("verifiers", folder)
    assert loose["sh"].strip() == "plaudit train run.toml"
    train(python)


@pytest.mark.parametrize("page", ["verifiers", "ors", "openenv", "harbor", "nemo-gym", "reasoning-gym"])
def test_its_run_files_are_run_files(page):
    runs = [
        block for block in blocks_of(f"bridges/{page}") if block.language == "toml" and "task.toml" not in block.title
    ]
    assert runs
    for block in runs:
        parse_run(tomllib.loads(block.body))
