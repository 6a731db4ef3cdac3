"""Servers that tests start with `plaudit vllm serve`, on loopback, and end by their process id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from plaudit.rollout.vllm.push import free_port

START_S = 600  # seconds; half a minute on a quiet machine

RUN = """
output_dir = "{folder}/run"
[model]
path = "{folder}/model"
[data]
path = "{folder}/rows.jsonl"
[[reward]]
name = "./{name}/rewards.py:length"
[config]
num_generations = 4
per_device_train_batch_size = 8
max_completion_length = 64
use_cpu = true
vllm_max_model_length = 128
"""


def run_file_for(model, tokenizer, folder: Path) -> Path:
    """A run file beside the model that it names."""
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "rows.jsonl").write_text('{"prompt": "1+1="}\n' * 8)
    (folder / "rewards.py").write_text(
        "def length(completions, **columns):\n    return [len(c) for c in completions]\n"
    )
    (folder / "run.toml").write_text(RUN.format(folder=folder, name=os.path.relpath(folder)))
    return folder / "run.toml"


@contextmanager
def served(run_file: Path | str, *options: str, log: Path):
    """The URL of a server for a run file, as long as the block lasts."""
    port = free_port()
    command = [os.path.join(os.path.dirname(sys.executable), "plaudit"), "vllm", "serve", str(run_file)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--device", "cpu", *options], stdout=output, stderr=output, env=environment
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, url, log)
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _wait(process, url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"the server did not come up:\n{log.read_text()[-3000:]}")
