"""`plaudit serve` and the references that use it: a remote reward scores like the local one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from plaudit import PluginError, UsageError, load_reward
from plaudit.cli import main
from plaudit.plugins.reference import Reference
from plaudit.plugins.remote import TOKEN_VARIABLE
from plaudit.scoring.spec import reward_specs

SERVED = Path(__file__).parent / "data" / "served.py"
COMPLETIONS = ["a", "B", "abstain", "raise", "longer", "a"]
COLUMNS = {
    "answer": ["a", "b", "x", "x", "x", "b"],
    "unit": ["m", "s", "m", "s", "m", None],
    "extra": [[i] for i in range(6)],
}


def start(*arguments: str, token: str | None = None) -> tuple[subprocess.Popen[str], str]:
    """A served process and its address."""
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    if token is not None:
        environment[TOKEN_VARIABLE] = token
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", "from plaudit.cli import main; raise SystemExit(main())", "serve", *arguments,
         "--port", str(port)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return process, url
        except OSError:
            assert process.poll() is None, process.stdout and process.stdout.read()
            time.sleep(0.05)
    raise AssertionError("the server did not start")


def stop(process: subprocess.Popen[str]) -> str:
    process.terminate()
    return process.communicate(timeout=30)[0]


@pytest.fixture(scope="module")
def url():
    process, url = start(f"{SERVED}:equal", f"{SERVED}:lengths", f"{SERVED}:ids", "--max-mb", "1")
    yield url
    output = stop(process)
    assert process.returncode == 0, output


@pytest.mark.parametrize("name", ["equal", "lengths", "ids"])
def test_a_remote_reward_scores_like_the_local_one(name, url, score):
    local = score(f"{SERVED}:{name}", COMPLETIONS, columns=COLUMNS, num_generations=3)
    remote = score(f"{url}#{name}", COMPLETIONS, columns=COLUMNS, num_generations=3)
    assert remote.scores == local.scores
    assert remote.names == local.names
    assert [f.rollouts for f in remote.failures] == [f.rollouts for f in local.failures]
    if name == "equal":
        assert remote.metrics == local.metrics
        for column in ("equal/extracted", "equal/reason", "equal/u"):
            assert remote.columns[column] == local.columns[column]
        assert "ValueError: boom" in remote.failures[0].message
    if name == "lengths":
        assert remote.columns["lengths/seen"] == local.columns["seen"]
        assert remote.metrics == {"lengths/batch": 6.0}


def test_what_a_remote_reward_declares(url):
    reward = load_reward(f"{url}/#equal")
    component = reward.component
    assert (component.kind, component.name, component.is_async) == ("verifier", "equal", True)
    assert component.declaration.deterministic
    assert component.signature.required == {"completion", "reference"}
    assert component.signature.names == {"completion", "reference", "unit"}
    assert reward_specs(f"{url}#lengths")[0].reward.component.declaration.granularity == "batch"


def test_many_rollouts_at_once(url, score):
    table = score(f"{url}#equal", [str(i) for i in range(300)])
    assert table.scores == ((1.0,),) * 300


def test_a_remote_reward_in_trls_contract(url):
    import asyncio

    reward = load_reward(f"{url}#equal")
    scores = reward(prompts=["p", "p"], completions=["a", "b"], completion_ids=[[], []], answer=["a", "x"])
    assert asyncio.run(scores) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("{url}#nope", "served: equal, lengths, ids"),
        ("http://127.0.0.1:9#x", "no reward server answers.*plaudit serve x"),
    ],
)
def test_remote_names_that_are_not_there(reference, message, url):
    with pytest.raises(PluginError, match=message):
        load_reward(reference.format(url=url))


def test_options_belong_to_the_server(url):
    with pytest.raises(UsageError, match="strict"):
        load_reward(f"{url}#equal", options={"strict": True})
    with pytest.raises(UsageError, match="https://host/#name"):
        Reference.parse("https://host/name")


def post(url: str, body: bytes, name: str = "equal", **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"{url}/rewards/{name}", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"not json", 400, "not a batch of rollouts"),
        (b"[]", 400, "not a batch of rollouts"),
        (b'{"format": 2, "rollouts": []}', 400, "format 1"),
        (b'{"format": 1, "rollouts": []}', 400, "0 rollouts"),
        (b'{"format": 1, "rollouts": [{}]}', 400, "no completion"),
        (b'{"format": 1, "rollouts": [{"completion": "a", "columns": {}}]}', 400, "needs a reference"),
        (json.dumps({"format": 1, "rollouts": [{"completion": "x" * 2**21}]}).encode(), 413, ""),
    ],
)
def test_bad_requests_are_answered_with_what_is_wrong(body, status, message, url):
    assert post(url, body)[0] == status
    assert message in post(url, body)[1]
    rollout = {"completion": "\ud800\0", "columns": {"reference": "\ud800\0"}}
    good = post(url, json.dumps({"format": 1, "rollouts": [rollout]}).encode())
    assert good[0] == 200
    assert json.loads(good[1])["score"] == 1.0


def test_the_token(score, monkeypatch):
    process, url = start(f"{SERVED}:equal", token="secret")
    try:
        assert post(url, b"{}")[0] == 401
        assert post(url, b"{}", Authorization="Bearer wrong")[0] == 401
        with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
            assert json.load(response)["status"] == "ok"
        monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
        with pytest.raises(PluginError, match=TOKEN_VARIABLE):
            load_reward(f"{url}#equal")
        monkeypatch.setenv(TOKEN_VARIABLE, "secret")
        assert score(f"{url}#equal", ["a"], columns={"answer": ["a"]}).scores == ((1.0,),)
        with pytest.raises(UsageError, match="in the clear"):
            load_reward("http://rewards.example#equal")
    finally:
        stop(process)


def test_a_server_that_dies_costs_only_its_scores(score):
    process, url = start(f"{SERVED}:equal")
    spec = reward_specs(f"{url}#equal")[0]
    stop(process)
    from dataclasses import replace

    table = score([replace(spec, backoff_s=0.01), *reward_specs(lambda completions: [1.0, 1.0])], ["a", "b"])
    assert table.scores == ((None, 1.0), (None, 1.0))
    assert {f.kind for f in table.failures} == {"ConnectionError"}
    assert table.runtime["scoring/equal/retries"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing_of_that_name"], "nothing_of_that_name"),
        ([f"{SERVED}:equal", "--host", "0.0.0.0"], TOKEN_VARIABLE),
        ([f"{SERVED}:equal", "--options", "equal"], "expected NAME="),
        ([f"{SERVED}:equal", "--options", 'other={"a": 1}'], "is not served"),
        ([f"{SERVED}:live"], "needs environments, which stays with the trainer"),
    ],
)
def test_serving_wrongly(arguments, message, capsys, monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert main(["serve", *arguments]) == 2
    assert message in capsys.readouterr().err
