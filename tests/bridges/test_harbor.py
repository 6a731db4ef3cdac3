"""Harbor task folders in the local sandbox."""

from __future__ import annotations

import asyncio

import pytest
from plaudit import UsageError, load_environment
from plaudit.bridges.harbor import HarborTask, RewardFileError, read_reward
from plaudit.plugins.loading import load_plugin

TEST = """#!/bin/bash
cd /app
if [ "$(cat answer.txt)" = "42" ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
PYTHON_TEST = """#!/bin/bash
python3 /tests/check.py
"""
CHECK = """import json, pathlib
right = pathlib.Path("/app/answer.txt").read_text().strip() == "42"
pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps({"reward": float(right), "other": 0.5}))
"""


def task(root, name="one", *, test=TEST, dockerfile="FROM python:3.13-slim\nWORKDIR /app\n", toml="", files=()):
    folder = root / name
    for part in ("environment", "tests", "solution"):
        (folder / part).mkdir(parents=True)
    (folder / "task.toml").write_text(f'schema_version = "1.4"\n[verifier]\ntimeout_sec = 10.0\n{toml}')
    (folder / "instruction.md").write_text("Write the answer to /app/answer.txt.\n")
    (folder / "environment" / "Dockerfile").write_text(dockerfile)
    (folder / "environment" / "question.txt").write_text("6 times 7\n")
    (folder / "tests" / "test.sh").write_text(test)
    (folder / "solution" / "solve.sh").write_text("echo 42 > /app/answer.txt\n")
    for path, text in dict(files).items():
        (folder / path).write_text(text)
    return folder


def play(folder, *commands, **options):
    async def episode():
        environment = load_environment("harbor", options=options)()
        try:
            await environment.reset(task_folder=str(folder))
            heard = [await environment.bash(command) for command in commands]
            return heard, await environment.get_reward()
        finally:
            await environment.close()

    return asyncio.run(episode())


def test_folders_are_rows(tmp_path):
    task(tmp_path, "b"), task(tmp_path, "a")
    rows = load_plugin("dataset", "harbor", options={"folder": str(tmp_path)})(split="train")
    assert [row["task_folder"][-1] for row in rows] == ["a", "b"]
    assert rows[0]["prompt"] == [{"role": "user", "content": "Write the answer to /app/answer.txt."}]


@pytest.mark.parametrize(
    ("test", "files"), [(TEST, {}), (PYTHON_TEST, {"tests/check.py": CHECK})], ids=["shell", "python"]
)
@pytest.mark.parametrize(
    ("command", "reward"),
    [("echo 42 > answer.txt", 1.0), ("echo 41 > answer.txt", 0.0), ("cd logs; echo 42 > /app/answer.txt", 1.0)],
)
def test_the_tests_reward_what_was_done(tmp_path, test, files, command, reward):
    heard, found = play(task(tmp_path, test=test, files=files), "cat question.txt", command)
    assert heard[0].strip() == "6 times 7"
    assert found == reward


def test_a_reward_file_that_the_model_wrote_is_not_read(tmp_path):
    folder = task(tmp_path, test="#!/bin/bash\nexit 1\n")
    with pytest.raises(RewardFileError, match="wrote neither"):
        play(folder, "mkdir -p logs/verifier && echo 1 > logs/verifier/reward.txt")


def test_tests_that_hang_leave_no_reward(tmp_path):
    folder = task(tmp_path, test="#!/bin/bash\necho 1 > /logs/verifier/reward.txt; sleep 60\n")
    (folder / "task.toml").write_text("[verifier]\ntimeout_sec = 1.0\n")
    with pytest.raises(RewardFileError, match="was stopped"):
        play(folder)


@pytest.mark.parametrize(
    ("name", "text", "reward"),
    [
        ("reward.txt", "1", 1.0), ("reward.txt", "0.25\n", 0.25), ("reward.json", '{"reward": 0.5, "x": 1}', 0.5),
        ("reward.json", '{"a": 1, "b": 0}', 0.5), ("reward.txt", "nan", None), ("reward.txt", "1.5", None),
        ("reward.txt", "-0.5", None), ("reward.txt", "true", None), ("reward.txt", "", None),
        ("reward.txt", "passed", None), ("reward.json", '{"passed": true}', None), ("reward.json", "{", None),
    ],
)  # fmt: skip
def test_only_a_number_from_0_to_1_is_a_reward(name, text, reward):
    files = {f"logs/verifier/{name}": text.encode()}
    if reward is None:
        with pytest.raises(RewardFileError, match="expected a number from 0 to 1"):
            read_reward(files)
    else:
        assert read_reward(files) == reward


@pytest.mark.parametrize("missing", ["task.toml", "instruction.md", "tests/test.sh"])
def test_what_a_folder_lacks_is_named(tmp_path, missing):
    folder = task(tmp_path)
    (folder / missing).unlink()
    with pytest.raises(UsageError, match=missing):
        HarborTask.read(folder)


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[verifier]\ntimeout_sec = 'long'", "verifier.timeout_sec = 'long'; expected a number of seconds"),
        ("[verifier]\ntimeout_sec = 0", "timeout_sec = 0"), ("verifier = 3", "verifier = 3; expected a table"),
        ("[[steps]]\nname = 'a'", r"has \[\[steps\]\]"), ("[verifier", "is not TOML"),
        ("[environment]\nenv = {A = 1}", "expected a table of texts"),
        ("[verifier]\nenv = {A = '${PLAUDIT_NO_SUCH}'}", "this process has no PLAUDIT_NO_SUCH"),
    ],
)  # fmt: skip
def test_what_a_task_says_wrong_is_named(tmp_path, toml, says):
    folder = task(tmp_path)
    (folder / "task.toml").write_text(toml)
    with pytest.raises(UsageError, match=says):
        HarborTask.read(folder)


def test_variables_of_the_task_and_of_its_tests(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "it's")
    test = '#!/bin/bash\n[ "$KEY$COLOUR" = "it\'s red" ] && echo 1 > /logs/verifier/reward.txt\n'
    folder = task(tmp_path, test=test)
    env = "[environment]\nenv = {COLOUR = ' red', SIZE = '${NONE:-big}'}\n[verifier]\nenv = {KEY = '${SECRET}'}\n"
    (folder / "task.toml").write_text(env)
    heard, reward = play(folder, "echo $COLOUR $SIZE $KEY")
    assert (heard[0].strip(), reward) == ("red big", 1.0)


def test_a_task_of_an_image_is_refused(tmp_path):
    folder = task(tmp_path)
    (folder / "task.toml").write_text("[environment]\ndocker_image = 'somebody/task:1'\n")
    with pytest.raises(UsageError, match="runs in the image somebody/task:1"):
        play(folder)
    assert play(folder, "echo 42 > answer.txt", ignore_dockerfile=True)[1] == 1.0


def test_a_task_that_installs_software_is_refused(tmp_path):
    folder = task(tmp_path, dockerfile="FROM python:3.13\nRUN pip install numpy\nWORKDIR /app\n")
    with pytest.raises(UsageError, match="installs software"):
        play(folder)
    assert play(folder, "echo 42 > answer.txt", ignore_dockerfile=True)[1] == 1.0
