"""verifiers 0.4: our rewards plugged into its tasks, its tasksets as our rows and verifier."""

import asyncio

import verifiers.v1 as vf
from plaudit import load_verifier
from plaudit.plugins.loading import load_plugin


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
