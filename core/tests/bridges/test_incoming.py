"""Rewards, environments and tasks of other systems, named in ours."""

from __future__ import annotations

import asyncio

import pytest
from counting import Counter, broken, same
from plaudit import UsageError, load_environment, load_reward, load_verifier
from plaudit.bridges.foreign import verdict_of
from plaudit.bridges.http import JSONClient, ServerError
from plaudit.bridges.ors_server import ORSServer
from plaudit.bridges.reward_servers import nemo_gym_app
from plaudit.bridges.sessions import EnvironmentSessions
from plaudit.plugins.loading import load_plugin
from plaudit.rollout.agent.kinds import probe
from plaudit.rollout.agent.spec import EnvironmentSpec
from plaudit.scoring.spec import environment_spec, reward_specs
from plaudit.scoring.web import WebLimits
from plaudit.types import Rollout, Row
from serving import served

VERL = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, bonus=0.0):
    right = solution_str == ground_truth
    return {"score": float(right) + bonus, "length": len(solution_str), "source": data_source}

async def slow_score(data_source, solution_str, ground_truth, extra_info=None):
    return float(solution_str == ground_truth)

def lost(data_source, solution_str, ground_truth, extra_info=None):
    return {"grade": 1}
"""


@pytest.fixture
def verl_file(tmp_path):
    path = tmp_path / "scores.py"
    path.write_text(VERL)
    return path


@pytest.mark.parametrize(
    ("name", "more", "right", "wrong"),
    [("compute_score", {}, 1.0, 0.0), ("compute_score", {"bonus": 0.5}, 1.5, 0.5), ("slow_score", {}, 1.0, 0.0)],
)
def test_a_verl_function_is_a_verifier(verl_file, name, more, right, wrong):
    judge = load_verifier("verl", options={"function": f"{verl_file}:{name}", "reward_kwargs": more})
    assert [asyncio.run(judge(answer, "4")).score for answer in ("4", "5")] == [right, wrong]


def test_what_verl_returns_besides_is_kept(verl_file):
    judge = load_verifier("verl", options={"function": f"{verl_file}:compute_score", "data_source": "gsm"})
    verdict = asyncio.run(judge("4", "4"))
    assert (verdict.metrics, verdict.columns) == ({"length": 1.0}, {"source": "gsm"})
    lost = load_verifier("verl", options={"function": f"{verl_file}:lost"})
    with pytest.raises(UsageError, match="expected a 'score'"):
        asyncio.run(lost("4", "4"))


@pytest.mark.parametrize(
    ("told", "score"),
    [
        (1, 1.0),
        (True, 1.0),
        (0.5, 0.5),
        ({"score": 2}, 2.0),
        ({"acc": 1.0}, 1.0),
        (None, None),
        ({"score": None}, None),
    ],
)
def test_scores_of_others_are_verdicts(told, score):
    assert verdict_of(told, "x").score == score


@pytest.mark.parametrize("told", ["good", {"score": "good"}, [1.0]])
def test_a_word_is_no_score(told):
    with pytest.raises(UsageError, match="expected a number"):
        verdict_of(told, "x")


def test_a_trl_function_needs_no_bridge():
    pytest.importorskip("trl")
    reward = load_reward("trl.rewards:think_format_reward")
    assert reward(completions=[[{"content": "<think>a</think>b"}], [{"content": "b"}]]) == [1.0, 0.0]


@pytest.mark.parametrize(("reward", "scores"), [(same, [1.0, 0.0, None]), (broken, [None, None, None])])
def test_a_nemo_gym_server_judges(reward, scores):
    with served(nemo_gym_app(reward_specs([reward]), WebLimits())) as url:
        judge = load_reward("nemo_gym", options={"url": url})
        found = asyncio.run(judge(completions=["4", "5", "?"], prompts=["2+2="] * 3, answer=["4"] * 3))
        assert found == scores


def test_a_server_that_is_down_is_named():
    judge = load_verifier("nemo_gym", options={"url": "http://127.0.0.1:9"})
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9/verify cannot be reached"):
        asyncio.run(judge("4", "4"))
    with pytest.raises(ConnectionError, match="is the server running"):
        load_environment("ors", options={"url": "http://127.0.0.1:9"})()


@pytest.fixture
def ors_url():
    tasks = [{"goal": 3}, {"goal": 5, "prompt": "Go."}]
    with served(ORSServer(EnvironmentSessions(Counter), tasks).app(WebLimits())) as url:
        yield url


def test_tasks_of_an_ors_server_are_rows(ors_url):
    rows = load_plugin("dataset", "ors", options={"url": ors_url})(split="train")
    assert [(row["task_index"], row["task_split"]) for row in rows] == [(0, "train"), (1, "train")]
    assert len(load_plugin("dataset", "ors", options={"url": ors_url, "limit": 1})()) == 1


def test_an_ors_environment_has_the_servers_tools(ors_url):
    kind, _ = probe(None, EnvironmentSpec(load_environment("ors", options={"url": ors_url})))
    assert [tool.name for tool in kind.tools] == ["add", "look"]
    assert kind.tools[0].schema["function"]["parameters"]["properties"]["number"]["type"] == "integer"
    assert kind.type is probe(None, EnvironmentSpec(load_environment("ors", options={"url": ors_url})))[0].type
    with pytest.raises(UsageError, match="no environment 'chess'"):
        load_environment("ors", options={"url": ors_url, "environment": "chess"})()


def test_an_episode_at_an_ors_server(ors_url):
    async def episode():
        environment = load_environment("ors", options={"url": ors_url})()
        said = [await environment.reset(task_index=1)]
        said += [await environment.add(number=2), await environment.add(number=3)]
        with pytest.raises(ServerError, match="too much"):
            await environment.add(number=200)
        reward = await environment.get_reward("I am done")
        with pytest.raises(ServerError, match="ended"):
            await environment.add(number=1)
        await environment.reset(task_index=0)
        again = await environment.get_reward("at once")
        await environment.close()
        return said, reward, again

    assert asyncio.run(episode()) == (["Go.\n\ncount to 5", "2", "5"], 1.0, 0.0)


def test_an_environments_reward_may_read_the_last_turn():
    class Echo:
        def reset(self):
            return "say yes"

        def get_reward(self, completion: str) -> float:
            return float(completion == "yes")

    spec = environment_spec(Echo)
    echo = Echo()
    messages = [
        {"role": "assistant", "content": "hm"},
        {"role": "tool", "content": "?"},
        {"role": "assistant", "content": "yes"},
    ]
    rollouts = [Rollout(0, Row("p"), messages, environment=echo), Rollout(1, Row("p"), "no", environment=echo)]
    found = [spec.reward(completions=[one.completion], environments=[one.environment]) for one in rollouts]
    assert found == [[1.0], [0.0]]


def test_an_answer_that_is_an_error_says_where(ors_url):
    async def ask():
        client = JSONClient(ors_url)
        try:
            await client.post("/counter/task", {"split": "train", "index": 99})
        finally:
            await client.close()

    with pytest.raises(ServerError, match="/counter/task answered 400: no task 99"):
        asyncio.run(ask())
