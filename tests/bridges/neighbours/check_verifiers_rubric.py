"""verifiers before 0.4: its environments as our rows and verifier, and its rollouts in a training of ours."""

import asyncio
import json

import pytest
from plaudit import PlauditError, UsageError, load_environment, load_verifier
from plaudit.cli import main
from plaudit.plugins.loading import load_plugin
from scripted import call, make_model, make_tokenizer, make_trainer, turns_of


def rows_of(environment, **options):
    given = {"environment": environment, "options": options}
    return load_plugin("dataset", "verifiers", options=given)(split="train")


def test_a_rubric_gives_rows_and_scores():
    options = {"environment": "tiny_rubric", "options": {"count": 3}}
    rows = load_plugin("dataset", "verifiers", options=options)(split="train")
    assert [row["answer"] for row in rows] == ["1", "2", "3"]
    assert rows[0]["prompt"][-1]["content"] == "0+1="
    judge = load_verifier("verifiers", options=options)
    told = asyncio.run(judge("2", prompt=rows[1]["prompt"], task_index=1))
    wrong = asyncio.run(judge("long", prompt=rows[1]["prompt"], task_index=1))
    assert (told.score, told.metrics["right"], told.metrics["short"]) == (1.5, 1.0, 1.0)
    assert wrong.score == 0.0


def test_a_reward_function_that_fails_is_no_zero():
    options = {"environment": "tiny_rubric", "options": {"fails": True}}
    judge = load_verifier("verifiers", options=options)
    with pytest.raises(RuntimeError, match="the judge is out"):
        asyncio.run(judge("2", task_index=1))


def play(folder, say, *, kind, **more):
    options = {"environment": "tiny_turns", "options": {"kind": kind}}
    factory = load_environment("verifiers", options=options)
    trainer = make_trainer(folder, say, rows=rows_of("tiny_turns", kind=kind), environment_factory=factory, **more)
    trainer.train()
    return trainer, trainer.state.log_history[0]


def guess(text, index):
    """The fourth rollout of a group guesses at once, the others count up."""
    answer = 2 + int(text.split("question ")[1][0])
    return str(answer) if index % 4 == 3 else str(answer - 1 + turns_of(text))


def test_a_user_answers_the_turns(tmp_path):
    trainer, log = play(tmp_path, guess, kind="guess")
    assert log["rewards/tiny_turns/mean"] == pytest.approx(1 + 0.5 * (3 * 0.5 + 1) / 4)
    assert (log["tiny_turns/guessed"], log["tiny_turns/num_turns"]) == (1.0, 1.75)
    assert trainer.state.global_step == 1


def test_a_rollout_that_ends_early_is_scored_as_it_stands(tmp_path):
    _, log = play(tmp_path, lambda text, index: "9", kind="guess", max_tool_calling_iterations=1)
    assert (log["rewards/tiny_turns/mean"], log["tiny_turns/num_turns"]) == (0.5 / 2, 2.0)


def test_tools_are_called_by_the_environment(tmp_path):
    def say(text, index):
        assert '"name": "add"' in text
        return "done" if turns_of(text) else call("add", number=2, other=3 if index % 2 else 4)

    _, log = play(tmp_path, say, kind="tools")
    assert log["rewards/tiny_turns/mean"] == 0.5
    assert (log["tools/call_frequency"], log["tiny_turns/add_calls"]) == (1.0, 1.0)


def test_a_group_is_compared(tmp_path):
    _, log = play(tmp_path, guess, kind="group")
    assert log["rewards/tiny_turns/mean"] == pytest.approx(1 + 0.5 / 4)
    assert log["tiny_turns/best_of_group"] == 0.25


@pytest.mark.parametrize("kind", ["broken", "nan"])
def test_a_failing_reward_abstains(tmp_path, kind):
    _, log = play(tmp_path, guess, kind=kind)
    assert log.get("rewards/tiny_turns/mean") is None
    assert log["scoring/tiny_turns/failures"] == 8


def test_a_mixture_scores_what_it_can(tmp_path):
    trainer, _ = play(tmp_path, guess, kind="mixture", max_steps=2)
    logs = [log for log in trainer.state.log_history if "scoring/tiny_turns/failures" in log]
    assert sum(log["scoring/tiny_turns/failures"] for log in logs) == 8
    assert max(log["tiny_turns/guessed"] for log in logs if "tiny_turns/guessed" in log) == 1.0


@pytest.mark.parametrize(
    ("environment", "options", "says"),
    [
        ("no_such_env", {}, "no module 'no_such_env' is installed"),
        ("owner/no-such-env@1.0", {}, "no module 'no_such_env' is installed"),
        ("tiny_turns", {"knid": 1}, r"unexpected keyword argument 'knid'; it takes load_environment\(kind"),
        ("tiny_turns", {"kind": "fun"}, "cannot be made: KeyError"),
        ("tiny_turns", {"kind": "nothing"}, "no function with a weight"),
        ("json", {}, "no load_environment"),
    ],
)
def test_what_cannot_be_loaded_is_said(environment, options, says):
    with pytest.raises(UsageError, match=says):
        rows_of(environment, **options)


def test_many_turns_are_no_reward():
    options = {"environment": "tiny_turns", "options": {"kind": "guess"}}
    with pytest.raises(PlauditError, match="cannot be a reward, its episodes have several turns"):
        load_verifier("verifiers", options=options)


RUN = """
output_dir = "out"

[model]
path = "model"

[data]
name = "verifiers"
options = { environment = "tiny-turns", options = { kind = "tools", count = 4 } }

[[environment]]
name = "verifiers"
options = { environment = "tiny-turns", options = { kind = "tools", count = 4 } }

[config]
max_steps = 1
num_generations = 2
per_device_train_batch_size = 4
max_completion_length = 24
use_cpu = true
report_to = []
"""


def test_by_name_in_a_run_file(tmp_path, monkeypatch):
    make_model().save_pretrained(tmp_path / "model")
    make_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "run.toml").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "run.toml"]) == 0
    logged = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert any(one.get("rewards/tiny_turns/mean") == 0 for one in logged)
