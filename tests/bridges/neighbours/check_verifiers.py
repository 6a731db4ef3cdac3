"""verifiers 0.4: our rewards in its tasks, its tasksets as our rows and verifier, its episodes in our training."""

import asyncio
import json

import pytest
import verifiers.v1 as vf
from plaudit import PlauditError, UsageError, load_environment, load_verifier
from plaudit.cli import main
from plaudit.plugins.loading import load_plugin
from scripted import call, make_model, make_tokenizer, make_trainer, turns_of


def trace_of(task, reply):
    data = vf.TraceTask(type=type(task).__name__, data=task.data)
    nodes = [
        vf.MessageNode(message=vf.UserMessage(content=task.data.prompt), parent=None),
        vf.MessageNode(message=vf.AssistantMessage(content=reply), parent=0, sampled=True),
    ]
    return vf.Trace(task=data, agent=vf.AgentInfo(config=vf.AgentConfig()), nodes=nodes)


def test_a_reward_of_ours_is_plugged_in():
    from tiny_taskset import SumData, SumTask

    config = vf.TaskConfig(rewards={"same": {"fn": "plaudit.bridges.verifiers:exact", "weight": 0.5}})
    task = SumTask(SumData(prompt="1+1=", answer="2"), config)
    for reply, score in (("2", 1.0), ("3", 0.0)):
        trace = trace_of(task, reply)
        asyncio.run(task.score(trace))
        assert (trace.rewards["same"].score, trace.rewards["same"].weight) == (score, 0.5)


def test_a_taskset_gives_rows_and_scores():
    rows = load_plugin("dataset", "verifiers", options={"environment": "tiny_taskset"})(split="train")
    assert [row["answer"] for row in rows] == ["1", "2", "3"]
    assert rows[0]["prompt"] == [{"role": "system", "content": "Add."}, {"role": "user", "content": "0+1="}]
    judge = load_verifier("verifiers", options={"environment": "tiny_taskset"})
    right = asyncio.run(judge("2", prompt=rows[1]["prompt"], task_index=1))
    wrong = asyncio.run(judge("wrong", prompt=rows[1]["prompt"], task_index=1))
    assert (right.score, right.metrics) == (3.0, {"right": 1.0, "short": 1.0})
    assert (wrong.score, wrong.metrics) == (0.0, {"right": 0.0, "short": 0.0})


def play(folder, say, *, kind="good", environment="tiny_play", **more):
    options = {"environment": environment, "options": {"kind": kind}}
    rows = load_plugin("dataset", "verifiers", options=options)(split="train")
    factory = load_environment("verifiers", options=options)
    trainer = make_trainer(folder, say, rows=rows, environment_factory=factory, **more)
    trainer.train()
    return trainer.state.log_history[0]


def add_then_answer(text, index):
    """The first of a group adds wrongly, and the last answers at once."""
    assert '"name": "add"' in text
    if turns_of(text) or index % 4 == 3:
        return str(2 + int(text.split("question ")[1][0]))
    return call("add", number=2, other=3 if index % 4 else 4)


def test_an_episode_runs_with_its_own_tools_and_user(tmp_path):
    log = play(tmp_path, add_then_answer)
    assert log["rewards/tiny_play/mean"] == pytest.approx((2 + 3 + 3 + 2) / 4)
    assert (log["tiny_play/right"], log["tiny_play/left_a_file"]) == (1.0, 0.5)
    assert log["tiny_play/turns"] == pytest.approx((3 + 3 + 3 + 2) / 4)
    assert log["tools/call_frequency"] == 0.75


def test_an_episode_that_has_no_room_is_scored_as_it_stands(tmp_path):
    log = play(tmp_path, add_then_answer, max_tool_calling_iterations=0)
    assert log["rewards/tiny_play/mean"] == pytest.approx((0 + 1 + 1 + 2) / 4)


def test_the_environment_may_be_the_user(tmp_path):
    def say(text, index):
        assert "say a number" in text
        return "two" if "one and now the next" in text else "one"

    assert play(tmp_path, say, environment="tiny_asker")["rewards/tiny_asker/mean"] == 1.0


def test_a_failing_reward_abstains(tmp_path):
    log = play(tmp_path, add_then_answer, kind="broken")
    assert log.get("rewards/tiny_play/mean") is None
    assert log["scoring/tiny_play/failures"] == 8


@pytest.mark.parametrize(
    ("environment", "more", "says"),
    [
        ("tiny_play", {"options": {"kind": "unrated"}}, "have no reward, so every reward would be 0"),
        ("tiny_play", {"options": {"knid": 1}}, "knid"),
        ("tiny_play", {"env": {"agnet": {}}}, "agnet"),
        ("tiny_taskset", {}, "'bash' of agent runs what the model writes; say where"),
        (
            "tiny_play",
            {"env": {"agent": {"client": {"type": "eval", "base_url": "http://x"}}}},
            "exactly one is the model",
        ),
        ("no_such_env", {}, "no module 'no_such_env' is installed"),
    ],
)
def test_what_cannot_be_played_is_said(environment, more, says):
    with pytest.raises(UsageError, match=says):
        load_environment("verifiers", options={"environment": environment, **more})()


def test_a_reward_that_needs_the_rollout_is_no_verifier():
    with pytest.raises(PlauditError, match="left_a_file looks at what the rollout left behind"):
        load_verifier("verifiers", options={"environment": "tiny_play"})


RUN = """
output_dir = "out"

[model]
path = "model"

[data]
name = "verifiers"
options = { environment = "tiny-play" }

[[environment]]
name = "verifiers"
options = { environment = "tiny-play", env = { agent = { max_turns = 3 } } }

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
    assert any(one.get("rewards/tiny_play/mean") == 0 for one in logged)
