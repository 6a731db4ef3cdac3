"""`[[environment]]`, `[task.environment]` and `tools` in a run file, from the check to the trained model."""

from __future__ import annotations

import json

import pytest
from plaudit.cli import main
from scripted import make_model, make_tokenizer

MODULE = '''
class Counter:
    """Counts."""

    def __init__(self, *, target: int = 3):
        self.target = target

    def reset(self, start: int = 0, **row):
        self.count = start
        return f"Count to {self.target}."

    def increment(self, step: int) -> int:
        """Add.

        Args:
            step: How much.
        """
        self.count += step
        return self.count

    def decrement(self, step: int) -> int:
        """Take away.

        Args:
            step: How much.
        """
        self.count -= step
        return self.count

    def get_reward(self) -> float:
        return float(self.count == self.target)


class Needy(Counter):
    def reset(self, riddle):
        return riddle


class Talker(Counter):
    def answer_turn(self, message):
        return None


def lookup(key: str) -> str:
    """Look something up.

    Args:
        key: What.
    """
    return key


def length(completions, **columns):
    return [float(len(completion[0]["content"])) if completion else 0.0 for completion in completions]
'''
RUN = """
output_dir = "run"
[model]
path = "model"
[config]
num_generations = 4
per_device_train_batch_size = 8
max_completion_length = 12
max_steps = 1
logging_steps = 1
save_strategy = "no"
use_cpu = true
{config}
"""
OWN = RUN.format(config="") + '[[environment]]\nname = "./games.py:Counter"\noptions = {target = 4}\n'
DATA = '[data]\npath = "rows.jsonl"\n'
REWARD = '[[reward]]\nname = "./games.py:length"\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a model, a module and rows that are text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    make_model().save_pretrained("model")
    make_tokenizer().save_pretrained("model")
    (tmp_path / "games.py").write_text(MODULE)
    rows = [{"prompt": f"row {place}", "start": place, "environment": "ab"[place % 2]} for place in range(4)]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    routes = "\n".join(json.dumps({"environment": row["environment"]}) for row in rows)
    (tmp_path / "routes.jsonl").write_text(routes)
    return tmp_path


def train(folder, text, *flags):
    (folder / "run.toml").write_text(text)
    return main(["train", "run.toml", *flags])


def test_an_environment_by_itself_trains(folder, capsys):
    assert train(folder, OWN) == 0
    shown = capsys.readouterr().out
    assert "Counter (decrement, increment)" in shown
    assert "made up by the environment" in shown
    assert "Counter × 1" in shown
    logs = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {"rewards/Counter/mean", "tools/call_frequency", "env/reset_s"} <= set(logs[0])
    assert train(folder, (folder / "run" / "run.toml").read_text(), "--overwrite", "--dry-run") == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (OWN + DATA, ["4 rows", "Counter (decrement, increment)"]),
        ('tools = ["./games.py:lookup"]\n' + OWN + DATA + REWARD, ["lookup", "length × 1", "Counter × 1"]),
        ('tools = ["./games.py:lookup"]\n' + RUN.format(config="") + DATA + REWARD, ["tools", "lookup"]),
        (OWN.replace('target = 4}', 'target = 4}\ntools = ["increment"]'), ["Counter (increment)"]),
        (
            RUN.format(config="") + DATA.replace("rows", "routes")
            + '[[environment]]\nname = "./games.py:Counter"\nroute = "a"\n'
            + '[[environment]]\nname = "./games.py:Counter"\nroute = "b"\ntimeout_s = 3\non_error = "abort"\n',
            ["a: Counter", "b: Counter", "4 rows"],
        ),
        (
            RUN.format(config="")
            + '[[task]]\nname = "count"\nratio = 1\n[task.environment]\nname = "./games.py:Counter"\n'
            + '[[task]]\nname = "talk"\nratio = 1\n[task.data]\npath = "talk.jsonl"\n'
            + '[[task.reward]]\nname = "./games.py:length"\n',
            ["count: Counter", "(count 256, talk 256)"],
        ),
    ],
)  # fmt: skip
def test_what_a_run_file_can_say(folder, capsys, text, shown):
    (folder / "talk.jsonl").write_text("\n".join(json.dumps({"prompt": f"talk {n}"}) for n in range(4)))
    assert train(folder, text, "--dry-run") == 0
    found = capsys.readouterr().out
    for words in shown:
        assert words in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN.replace("Counter", "Missing"), "Missing"),
        (OWN.replace("target = 4", "goal = 4"), "goal"),
        (OWN.replace("target = 4}", 'target = 4}\non_error = "ignore"'), "on_error"),
        (OWN.replace("target = 4}", "target = 4}\ntimeout_s = -1"), "timeout_s"),
        (OWN.replace("target = 4}", 'target = 4}\ntools = ["jump"]'), "no tool 'jump'"),
        (OWN.replace("max_steps = 1\n", ""), "config.max_steps"),
        (OWN.replace("options = {target = 4}", "").replace("Counter", "Needy"), "reset needs the column 'riddle'"),
        ('tools = ["lookup"]\n' + OWN, "'lookup' names no function"),
        ('tools = ["./games.py:search"]\n' + OWN, "search"),
        ('engine = "trl"\n' + OWN.replace("Counter", "Talker"), "answers turns itself"),
        (RUN.format(config="") + DATA, "a run needs a reward"),
        (RUN.format(config=""), "one [[environment]]"),
        (OWN + '[[environment]]\nname = "./games.py:Counter"\n' + DATA, "two [[environment]]"),
        (OWN.replace("options", 'route = "c"\noptions') + DATA, "environment = 'a'; there are: 'c'"),
        (
            RUN.format(config="") + '[[task]]\nname = "t"\n[task.environment]\nname = "./games.py:Counter"\n'
            '[[task]]\nname = "u"\n[task.environment]\nname = "./games.py:Counter"\n',
            "give every task a ratio",
        ),
        (RUN.format(config="") + '[[task]]\nname = "t"\n' + REWARD, "task.0.data is missing"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said_before_the_model_is_loaded(folder, capsys, monkeypatch, text, message):
    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", None)
    assert train(folder, text) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "run").exists()
