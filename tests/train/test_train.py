"""`plaudit train` from the run file to the report: what it writes, dry runs, two tasks, locks, and running again."""

from __future__ import annotations

import json
import struct
import tomllib

import pytest

PNG = b"\x89PNG\r\n\x1a\n"
TWO_TASKS = """
output_dir = "run"
[model]
path = "quickstart"
[[task]]
name = "addition"
ratio = 3
data = {name = "quickstart:addition", options = {size = 24}, eval_split = "test", eval_size = 4}
[[task.reward]]
name = "addition"
[[task]]
name = "larger"
ratio = 1
data = {name = "quickstart:larger", options = {size = 24}, eval_split = "test", eval_size = 4}
[[task.reward]]
name = "larger"
[config]
num_generations = 4
per_device_train_batch_size = 32
max_completion_length = 40
max_steps = 2
logging_steps = 1
save_strategy = "no"
log_completions = true
num_completions_to_print = 0
use_cpu = true
"""


def metrics(folder):
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_its_report_curve_model_lock_and_numbers(train, run_folder, capsys):
    assert train("data.eval_split=test", "data.eval_size=8", "config.log_completions=true") == 0
    printed = capsys.readouterr().out
    out = run_folder / "run"
    assert "before training, 8 held-out rows, greedy: addition 0." in printed
    assert "report      run/report.md" in printed
    assert [entry["step"] for entry in metrics(run_folder) if "reward" in entry] == [1, 2]
    image = (out / "curve.png").read_bytes()
    width, height = struct.unpack(">II", image[16:24])
    assert image.startswith(PNG)
    assert (width > 1000, height > 300) == (True, True)
    heldout = json.loads((out / "heldout.json").read_text())
    assert [(heldout[when]["step"], heldout[when]["rows"]) for when in heldout] == [(0, 8), (2, 8)]
    report = (out / "report.md").read_text()
    assert "| addition | 0." in report
    assert "![learning curve](curve.png)" in report
    card = (out / "model" / "README.md").read_text()
    assert (out / "model" / "curve.png").read_bytes() == image
    for line in (
        "library_name: transformers", "base_model: quickstart", "![The learning curve](curve.png)",
        "8 rows, greedy:", "| reward | before | after |", "| max_completion_length | 40 |",
        "| addition | verifier | plaudit-quickstart |", "| quickstart:addition | dataset | plaudit-quickstart |",
        "| quickstart | model | plaudit-quickstart |",
    ):  # fmt: skip
        assert line in card
    assert str(run_folder) not in card
    assert "datasets:" not in card
    assert "<answer>" in report
    assert tomllib.loads((out / "run.toml").read_text())["config"]["log_completions"] is True
    assert json.loads((out / "plaudit.lock").read_text())["components"][0]["name"] == "addition"
    assert sorted(path.name for path in (out / "completions").iterdir()) == [
        "train_00001.parquet",
        "train_00002.parquet",
    ]
    assert {"model.safetensors", "tokenizer.json", "config.json"} <= {path.name for path in (out / "model").iterdir()}


def test_the_trained_model_can_be_the_next_runs_model(train, run_folder, capsys):
    assert train() == 0
    assert train("output_dir=next", "model.path=run/model", "config.max_steps=1") == 0


def test_dry_run_shows_scored_completions_and_writes_nothing(train, run_folder, capsys):
    assert train("--dry-run") == 0
    printed = capsys.readouterr().out
    assert "16 rollouts a generation" in printed
    assert printed.count("</answer>") >= 4
    assert "dry run: 8 completions generated and scored, nothing trained" in printed
    assert not (run_folder / "run").exists()


def test_a_run_is_not_replaced_unless_asked(train, run_folder, capsys):
    assert train() == 0
    before = (run_folder / "run" / "metrics.jsonl").read_bytes()
    assert train() == 2
    error = capsys.readouterr().err
    assert "error: 'run' holds a run already: --overwrite to replace it" in error
    assert (run_folder / "run" / "metrics.jsonl").read_bytes() == before
    (run_folder / "run" / "notes.txt").write_text("mine")
    assert train("--overwrite", "config.max_steps=1") == 0
    assert [entry["step"] for entry in metrics(run_folder) if "reward" in entry] == [1]
    assert (run_folder / "run" / "notes.txt").read_text() == "mine"


def test_a_run_that_failed_at_once_can_be_started_again(train, run_folder, capsys):
    (run_folder / "short.py").write_text("def short(completions, **columns):\n    return [1.0]\n")
    assert train("reward.0.name=./short.py:short") == 2
    assert (run_folder / "run" / "run.toml").exists()
    assert train("config.max_steps=1") == 0


def test_two_tasks_each_with_its_own_verifier(train, run_folder, capsys):
    import pyarrow.parquet as pq

    (run_folder / "run.toml").write_text(TWO_TASKS)
    assert train() == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "96 rows (addition 72, larger 24), 8 held out" in printed
    assert "where task = larger" in printed
    table = pq.read_table(run_folder / "run" / "completions" / "train_00001.parquet").to_pylist()
    assert len(table) == 32
    for row in table:
        own, other = ("larger", "addition") if row["prompt"].startswith("max") else ("addition", "larger")
        assert row[own] in (0.0, 1.0)
        assert row[other] is None
    groups = [{row["prompt"] for row in table[start : start + 4]} for start in range(0, 32, 4)]
    assert all(len(prompts) == 1 for prompts in groups)
    first = metrics(run_folder)[0]
    assert {"rewards/addition/mean", "rewards/larger/mean"} <= first.keys()
    # A row of the other task is none that the reward should have judged.
    assert (first["scoring/addition/abstentions"], first["scoring/larger/abstentions"]) == (0, 0)
    heldout = json.loads((run_folder / "run" / "heldout.json").read_text())
    assert heldout["after"]["judged"] == {"addition": 4, "larger": 4}


def test_one_reward_of_two_tasks_is_reported_for_each(train, run_folder, capsys):
    (run_folder / "run.toml").write_text(
        TWO_TASKS.replace('[[task.reward]]\nname = "larger"', '[[task.reward]]\nname = "addition"')
    )
    assert train("--dry-run") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "addition/addition × 1" in printed
    assert "larger/addition × 1" in printed


def test_locked_refuses_what_has_changed_and_says_what(train, run_folder, capsys):
    assert train("config.max_steps=1") == 0
    assert train("--locked", "--overwrite", "config.max_steps=1") == 0
    assert train("--locked", "--overwrite", "config.seed=7") == 2
    assert "seed: 42 -> 7" in capsys.readouterr().err
    assert train("--locked", "--overwrite", "data.options={size = 40}", "config.max_steps=1") == 2
    assert "dataset 'quickstart:addition': its options changed" in capsys.readouterr().err


def test_adapters_are_trained_when_asked(train, run_folder, capsys):
    pytest.importorskip("peft")
    assert train("model.peft={r=4, target_modules=['q_proj']}", "config.max_steps=1") == 0
    assert (run_folder / "run" / "model" / "adapter_model.safetensors").exists()
    assert "library_name: peft" in (run_folder / "run" / "model" / "README.md").read_text()
    assert "LORA adapter" in capsys.readouterr().out


def test_conversations_with_a_system_prompt_and_shots_reach_the_policy(train, run_folder, capsys):
    from plaudit.plugins.loading import load_plugin
    from transformers import AutoTokenizer

    source = load_plugin("model", "quickstart")()
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    import shutil

    shutil.copytree(source, run_folder / "chat")
    tokenizer.save_pretrained(run_folder / "chat")
    changes = ["model.path=./chat", 'data.system_prompt="="', "data.few_shot=[{prompt='1+1=', answer='2'}]"]
    assert train("--dry-run", *changes) == 0
    printed = capsys.readouterr().out
    assert "system: =" in printed
    assert "assistant: 2" in printed
    assert "longest 14 tokens" in printed


def test_a_plugins_hook_sees_the_resolved_run_and_may_refuse_it(train, run_folder, capsys, monkeypatch):
    from plaudit import UsageError, hookimpl
    from plaudit.plugins.hooks import Hooks

    class Refusal:
        @hookimpl
        def configure(self, settings):
            raise UsageError(f"not today: {settings['model']['path']}")

    hooks = Hooks()
    hooks.register(Refusal(), "refusal")
    monkeypatch.setattr("plaudit.run.launch.installed_hooks", lambda: hooks)
    assert train() == 2
    assert capsys.readouterr().err == "error: not today: quickstart\n"
