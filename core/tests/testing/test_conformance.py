"""The conformance checks on components that keep their contracts and on components that break one each."""

from __future__ import annotations

import textwrap

import pytest

MODULE = textwrap.dedent('''
    import itertools, random, time
    from plaudit import Verdict, reward, verifier

    def length(completions, **kwargs):
        return [float(len(text)) for text in completions]

    def short(completions, **kwargs):
        return [1.0]

    def infinite(completions, **kwargs):
        return [float("inf")] * len(completions)

    @reward(deterministic=True)
    def fickle(completions, **kwargs):
        return [random.random() for _ in completions]

    def mutating(completions, **kwargs):
        completions.clear() if False else completions.sort(key=len)
        return [0.0] * len(completions)

    _calls = itertools.count()

    def once(completions, **kwargs):
        return [float(next(_calls))] * len(completions)

    def strict(completions, answer):
        return [1.0] * len(completions)

    async def waiting(completions, **kwargs):
        return [0.0] * len(completions)

    def slow(completions, **kwargs):
        time.sleep(0.5)
        return [0.0] * len(completions)

    async def deaf(completions, **kwargs):
        import asyncio
        for _ in range(100):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue
        return [0.0] * len(completions)

    @reward(granularity="rollout", deterministic=True)
    def ranked(completions, **kwargs):
        return [float(place) for place, _ in enumerate(completions)]

    @verifier
    def same(completion, reference):
        if not reference:
            return Verdict.abstain("no reference")
        return Verdict.right() if completion == reference else Verdict.wrong("differs")

    @verifier
    def generous(completion, reference):
        return Verdict(1.0, "always")

    @verifier
    def silent(completion, reference):
        return completion == reference

    class Room:
        def reset(self, size: int = 3, **row):
            self._at, self._size = 0, size
            return f"A room of {size}."

        def move(self, steps: int) -> str:
            """Move.

            Args:
                steps: How far.
            """
            self._at += steps
            return str(self._at)

        def get_reward(self):
            return float(self._at == self._size)

        def close(self):
            pass

    class Untyped(Room):
        def jump(self, height):
            """Jump.

            Args:
                height: How high.
            """

    class Undescribed(Room):
        def look(self, where: str) -> str:
            """Look."""

    class Shared(Room):
        _log = []

        def __init__(self):
            self.log = Shared._log

    class Numbered(Room):
        def get_reward(self):
            return "good"
''')


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("components") / "components.py"
    path.write_text(MODULE)
    return path


@pytest.mark.parametrize("name", ["length", "waiting"])
def test_sound_rewards(file, check_reward, name):
    report = check_reward(f"{file}:{name}")
    assert "in another process" in report.passed
    assert "same twice" in report.skipped


def test_expected_scores(file, check_reward):
    check_reward(f"{file}:length", completions=["", "abc"], expected=[0.0, 3.0])
    with pytest.raises(AssertionError, match=r"completion 1 scored 3\.0, expected 4"):
        check_reward(f"{file}:length", completions=["", "abc"], expected=[0.0, 4.0])


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("short", "1 scores for 5"),
        ("infinite", "gave inf"),
        ("fickle", "declares deterministic"),
        ("mutating", "edits its arguments"),
        ("once", "in threads"),
        ("strict", "answer"),
        ("deaf", "after it was cancelled"),
        ("ranked", "the runtime gives"),
    ],
)
def test_each_breach_of_a_reward_is_named(file, check_reward, name, check):
    completions = ["ccc", "bb", "a", "", "dddd"]
    with pytest.raises(AssertionError, match=check):
        check_reward(f"{file}:{name}", completions=completions)


def test_time_budget(file, check_reward):
    with pytest.raises(AssertionError, match="the budget is"):
        check_reward(f"{file}:slow", time_budget_s=0.1)


def test_a_sound_verifier(file, check_verifier):
    report = check_verifier(f"{file}:same", right=[("a", "a")], wrong=[("b", "a")], abstains=[("a", "")])
    assert {"right examples", "wrong examples", "abstentions", "empty completions", "length"} <= set(report.passed)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("same", {"right": [("b", "a")], "wrong": [("c", "a")]}, "scored 0.0, expected 1"),
        ("same", {"right": [("a", "a")], "wrong": [("c", "a")], "abstains": [("a", "a")]}, "expected no score"),
        ("generous", {"right": [("a", "a")], "wrong": [("b", "a")]}, "empty completions"),
        ("silent", {"right": [("a", "a")], "wrong": [("b", "a")]}, "no reason is given"),
        ("same", {"right": [], "wrong": [("b", "a")]}, "at least one right"),
    ],
)
def test_each_breach_of_a_verifier_is_named(file, check_verifier, name, arguments, message):
    with pytest.raises(AssertionError, match=message):
        check_verifier(f"{file}:{name}", **arguments)


def test_a_sound_environment(file, check_environment):
    report = check_environment(f"{file}:Room", row={"size": 2})
    assert len(report.passed) == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Untyped", "argument height has no type"),
        ("Undescribed", "argument where is not described"),
        ("Shared", "share the mutable attribute 'log'"),
        ("Numbered", "get_reward gave 'good'"),
    ],
)
def test_each_breach_of_an_environment_is_named(file, check_environment, name, message):
    with pytest.raises(AssertionError, match=message):
        check_environment(f"{file}:{name}")
