"""`plaudit vllm serve`: the commands that it makes of a run file, and the processes that it watches."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from plaudit.cli import main
from plaudit.rollout.vllm.push import free_port

RUN = "examples/quickstart.toml"

# Answers /health, ends on SIGTERM, and says which GPU and options it was given.
STAND_IN = f"""#!{sys.executable}
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
port = int(sys.argv[sys.argv.index("--port") + 1])
print("started", port, os.environ["VLLM_SERVER_DEV_MODE"], flush=True)
if "--fail" in sys.argv: sys.exit(3)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def printed(capsys, *options):
    assert main(["vllm", "serve", RUN, "--print", *options]) == 0
    return [shlex.split(line) for line in capsys.readouterr().out.splitlines()]


def option(command, name):
    return command[command.index(name) + 1]


def test_the_command_for_a_cpu(capsys):
    (command,) = printed(capsys, "--device", "cpu")
    assert "VLLM_SERVER_DEV_MODE=1" in command
    assert command[command.index("vllm") + 1] == "serve"
    assert option(command, "--dtype") == "float32"
    assert option(command, "--logprobs-mode") == "processed_logprobs"
    assert option(command, "--generation-config") == "vllm"
    assert json.loads(option(command, "--weight-transfer-config")) == {"backend": "gloo"}
    assert option(command, "--worker-extension-cls") == "plaudit.rollout.vllm.worker.CpuWeights"
    assert option(command, "--host") == "127.0.0.1"
    # The longest prompt of the data and the 40 tokens of a completion.
    assert 40 < int(option(command, "--max-model-len")) < 60


def test_gpus_are_shared_out(capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,4,5")
    commands = printed(capsys, "--device", "cuda", "--servers", "2", "--tensor-parallel", "2", "--port", "9000")
    assert ["CUDA_VISIBLE_DEVICES=2,3" in commands[0], "CUDA_VISIBLE_DEVICES=4,5" in commands[1]] == [True, True]
    assert [option(command, "--port") for command in commands] == ["9000", "9001"]
    assert {option(command, "--tensor-parallel-size") for command in commands} == {"2"}
    assert {option(command, "--weight-transfer-config") for command in commands} == {'{"backend": "nccl"}'}


def test_what_the_run_says_is_followed(capsys):
    (command,) = printed(
        capsys, "--device", "cpu", "--set", "config.vllm_max_model_length=77", "--set", "config.top_k=64",
        "--set", "config.vllm_server_port=8123", "--option", "seed=5", "--option", "enable-x",
    )  # fmt: skip
    assert option(command, "--max-model-len") == "77"
    assert option(command, "--max-logprobs") == "64"
    assert option(command, "--port") == "8123"
    assert option(command, "--seed") == "5"
    assert command[-1] == "--enable-x"


WRONG = {
    "too few GPUs": (["--device", "cuda", "--servers", "3", "--print"], "need 3, and 2 are visible"),
    "no servers": (["--servers", "0", "--print"], "at least 1"),
    "no port": (["--port", "0", "--print"], "--port 0"),
    "ports beyond the last": (["--device", "cpu", "--port", "65535", "--servers", "2", "--print"], "of 1 to 65535"),
    "no vLLM": (["--device", "cpu"], "vLLM is not installed here: pip install vllm"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input(case, capsys, monkeypatch, tmp_path):
    options, expected = WRONG[case]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert main(["vllm", "serve", RUN, *options]) == 2
    assert expected in capsys.readouterr().err.replace("\n", " ")


@pytest.fixture
def stand_in(tmp_path):
    file = tmp_path / "vllm"
    file.write_text(STAND_IN)
    file.chmod(0o755)
    return str(file)


def serve(stand_in, *options):
    command = [sys.executable, "-c", "import sys; from plaudit.cli import main; sys.exit(main(sys.argv[1:]))"]
    return subprocess.Popen(
        [*command, "vllm", "serve", RUN, "--device", "cpu", "--vllm", stand_in, *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_servers_run_until_they_are_told_to_stop(number, stand_in):
    port = free_port()
    process = serve(stand_in, "--port", str(port))
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("ready:"):
            break
    text = "".join(lines)
    assert f'vllm_server_base_url = "http://127.0.0.1:{port}"' in text
    assert f"started {port} 1" in text
    process.send_signal(number)
    assert process.wait(60) == 0
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)


def test_a_server_that_ends_by_itself_ends_the_others(stand_in):
    process = serve(stand_in, "--port", str(free_port()), "--option", "fail")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "ended with code 3" in output


def test_a_port_that_is_taken_is_named(stand_in):
    port = free_port()
    other = subprocess.Popen([stand_in, "--port", str(port)], env={**os.environ, "VLLM_SERVER_DEV_MODE": "0"})
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                break
            except OSError:
                time.sleep(0.1)
        output, _ = serve(stand_in, "--port", str(port)).communicate(timeout=120)
        assert f"something listens at http://127.0.0.1:{port} already" in output.replace("\n", " ")
    finally:
        other.kill()
        other.wait()
