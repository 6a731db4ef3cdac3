"""One reward, whatever the author wrote: function, class, partial, instance, coroutine, reward or verifier."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from plaudit import ContractError, UsageError, Verdict, load_reward, load_verifier, reward, verifier
from plaudit.plugins.component import REWARD_CONTRACT


def lengths(completions, **columns):
    return [float(len(c)) for c in completions]


async def slow_lengths(prompts, completions, completion_ids, **columns):
    await asyncio.sleep(0)
    return [float(len(c)) for c in completions]


def exact(completion, reference):
    return completion == reference


async def slow_exact(completion, reference):
    await asyncio.sleep(0)
    return completion == reference


@reward(granularity="rollout", timeout_s=5)
def declared(completions, answer, *, bonus: float = 0.0):
    return [bonus + (c == a) for c, a in zip(completions, answer, strict=True)]


class Callable:
    def __call__(self, completions, **columns):
        return [1.0 for _ in completions]


class AsyncCallable:
    async def __call__(self, completions, **columns):
        return [1.0 for _ in completions]


@verifier(timeout_s=2)
class Close:
    """Whether two numbers are close."""

    def __init__(self, tolerance: float = 0.1) -> None:
        self.tolerance = tolerance

    def verify(self, completion, reference):
        return Verdict(float(abs(float(completion) - float(reference)) <= self.tolerance), extracted=completion)


class AsyncClose(Close):
    async def verify(self, completion, reference):
        return super().verify(completion, reference)


class Methods:
    def method(self, completions, **columns):
        return [2.0 for _ in completions]

    @staticmethod
    def static(completions, **columns):
        return [3.0 for _ in completions]

    @classmethod
    def of_class(cls, completions, **columns):
        return [4.0 for _ in completions]


COLUMNS = {"prompts": ["p", "q"], "completions": ["1", "23"], "completion_ids": [[1], [2, 3]], "answer": ["1", "2"]}
SHAPES = [
    # written, options, name, kind, async, scores
    (lengths, {}, "lengths", "reward", False, [1.0, 2.0]),
    (slow_lengths, {}, "slow_lengths", "reward", True, [1.0, 2.0]),
    (exact, {}, "exact", "verifier", False, [1.0, 0.0]),
    (slow_exact, {}, "slow_exact", "verifier", True, [1.0, 0.0]),
    (declared, {"bonus": 0.5}, "declared", "reward", False, [1.5, 0.5]),
    (Callable(), {}, "Callable", "reward", False, [1.0, 1.0]),
    (Callable, {}, "Callable", "reward", False, [1.0, 1.0]),
    (AsyncCallable(), {}, "AsyncCallable", "reward", True, [1.0, 1.0]),
    (Close, {}, "Close", "verifier", False, [1.0, 0.0]),
    (Close, {"tolerance": 30}, "Close", "verifier", False, [1.0, 1.0]),
    (Close(30), {}, "Close", "verifier", False, [1.0, 1.0]),
    (AsyncClose, {}, "AsyncClose", "verifier", True, [1.0, 0.0]),
    (functools.partial(declared, bonus=2.0), {}, "declared", "reward", False, [3.0, 2.0]),
    (functools.partial(declared, bonus=2.0), {"bonus": 3.0}, "declared", "reward", False, [4.0, 3.0]),
    (functools.partial(slow_lengths), {}, "slow_lengths", "reward", True, [1.0, 2.0]),
    (functools.partial(exact, reference="1"), {}, "exact", "verifier", False, [1.0, 0.0]),
    (Methods().method, {}, "method", "reward", False, [2.0, 2.0]),
    (Methods.static, {}, "static", "reward", False, [3.0, 3.0]),
    (Methods.of_class, {}, "of_class", "reward", False, [4.0, 4.0]),
    (lambda completions, **columns: [0.5, None], {}, "<lambda>", "reward", False, [0.5, None]),
    (lambda completion, answer: completion == answer, {}, "<lambda>", "verifier", False, [1.0, 0.0]),
]


def called(loaded: Any, **columns: Any) -> list[float | None]:
    scores = loaded(**columns)
    return asyncio.run(scores) if inspect.isawaitable(scores) else scores


@pytest.mark.parametrize(("written", "options", "name", "kind", "is_async", "scores"), SHAPES)
def test_every_shape_is_a_reward(written, options, name, kind, is_async, scores) -> None:
    loaded = load_reward(written, options=options)
    assert called(loaded, **COLUMNS) == scores
    component = loaded.component
    assert (loaded.__name__, component.kind, component.is_async) == (name, kind, is_async)
    assert inspect.iscoroutinefunction(loaded.__call__) is is_async
    assert load_reward(loaded).component is component


@pytest.mark.parametrize(("written", "options", "name", "kind", "is_async", "scores"), SHAPES)
def test_pickles_when_its_parts_do(written, options, name, kind, is_async, scores) -> None:
    loaded = load_reward(written, options=options, name="renamed")
    if name == "<lambda>":
        with pytest.raises(Exception, match="lambda"):
            pickle.dumps(loaded)
        return
    again = pickle.loads(pickle.dumps(loaded))
    assert type(again) is type(loaded)
    assert again.__name__ == "renamed"
    assert called(again, **COLUMNS) == scores


def test_a_loaded_file_pickles_by_reference(tmp_path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def make():\n    return lambda completion, gold, *, k=1.0: k\nverify = make()\n")
    loaded = load_reward(f"{file}:verify", options={"k": 2.0}, reference_column="other")
    again = pickle.loads(pickle.dumps(loaded))
    assert again(completions=["a"], gold=["b"], other=["c"]) == [2.0]
    assert (again.reference_column, again.component.options) == ("other", {"k": 2.0})


@pytest.mark.parametrize(
    ("written", "reference"),
    [
        (lambda completions: [], None),
        (Callable(), None),
        (functools.partial(exact), None),
        (math.isclose, "math:isclose"),
    ],
)
def test_only_what_another_process_can_import_has_a_reference(written, reference) -> None:
    if reference is None:
        assert load_reward(written).component.reference is None
    else:
        with pytest.raises(ContractError, match=r"takes neither|positional-only"):
            load_reward(written)


def test_a_function_of_an_importable_module_has_a_reference(installed) -> None:
    installed("acme", modules={"acme_module": "class A:\n    @staticmethod\n    def f(completions): return [1.0]\n"})
    import acme_module

    assert load_reward(acme_module.A.f).component.reference == "acme_module:A.f"
    shadowed = acme_module.A.f
    acme_module.A.f = staticmethod(lambda completions: [2.0])
    assert load_reward(shadowed).component.reference is None


def test_declarations_are_found_and_filled() -> None:
    assert load_reward(declared).component.declaration.timeout_s == 5
    assert load_reward(functools.partial(declared, bonus=1.0)).component.declaration.granularity == "rollout"
    assert load_reward(Close).component.declaration.timeout_s == 2
    plain = load_reward(exact).component.declaration
    assert (plain.kind, plain.granularity, plain.deterministic) == ("verifier", "rollout", True)
    plain = load_reward(lengths).component.declaration
    assert (plain.kind, plain.granularity, plain.deterministic) == ("reward", None, False)


def test_signatures_leave_out_options() -> None:
    signature = load_reward(declared).component.signature
    assert signature.names == {"completions", "answer"} == signature.required
    assert not signature.takes_any
    assert load_reward(declared).component.required_columns == {"answer"}
    assert load_reward(slow_lengths).component.required_columns == frozenset()
    assert load_reward(lambda completion, reference, level, prompt: 1.0).component.required_columns == {"level"}


def test_a_call_passes_only_what_the_signature_takes() -> None:
    got = {}

    def strict(completions, level=None):
        got.update(locals())
        return [1.0 for _ in completions]

    everything = {name: ["x"] for name in REWARD_CONTRACT} | {"level": [3], "other": [4]}
    assert load_reward(strict)(**everything) == [1.0]
    assert {k: v for k, v in got.items() if k != "got"} == {"completions": ["x"], "level": [3]}


def test_a_missing_column_is_named() -> None:
    with pytest.raises(UsageError, match=r"reward 'declared' needs 'answer'.*\(columns: level\)"):
        load_reward(declared)(completions=["a"], level=[1])
    with pytest.raises(UsageError, match=r"verifier 'exact' needs a reference.*columns: level.*set reference_column"):
        load_reward(exact)(completions=["a"], level=[1])
    with pytest.raises(UsageError, match="needs 'truth'"):
        load_reward(exact, reference_column="truth")(completions=["a"], answer=["a"])


@pytest.mark.parametrize("column", ["5", 5, ["5"], ["5", "5", "5"]])
def test_a_column_of_another_length_is_named(column) -> None:
    with pytest.raises(UsageError, match=r"'exact': column 'answer' is .*expected 2 values, one a completion"):
        load_reward(exact)(completions=["5", "5"], answer=column)


RETURNED = [
    ([1, 0.5], [1.0, 0.5]),
    ((True, False), [1.0, 0.0]),
    ([None, float("nan")], [None, None]),
    (np.array([1.0, np.nan]), [1.0, None]),
    (np.array([1, 2]), [1.0, 2.0]),
    ([np.float32(0.5), np.int64(2)], [0.5, 2.0]),
    ([np.bool_(True), np.array([2.0])], [1.0, 2.0]),
    (torch.tensor([1.0, 2.0]), [1.0, 2.0]),
    ([torch.tensor(1.5), torch.tensor([2])], [1.5, 2.0]),
    ([float("inf"), -math.inf], [math.inf, -math.inf]),
    ((x for x in (1.0, 2.0)), [1.0, 2.0]),
]
BREACHES = [
    ([1.0], "returned 1 scores for 2 completions"),
    ([1.0, 2.0, 3.0], "returned 3 scores for 2 completions"),
    ([], "returned 0 scores for 2 completions"),
    (None, "returned None (NoneType); expected a list of 2 floats"),
    (1.0, "returned 1.0 (float); expected a list"),
    ("ab", "returned 'ab' (str); expected a list"),
    ({"a": 1.0, "b": 2.0}, "(dict); expected a list"),
    (["1.0", 2.0], "returned the score '1.0' (str)"),
    ([[1.0], 2.0], "returned the score [1.0] (list)"),
    ([np.array([1.0, 2.0]), 1.0], "returned the score array([1., 2.])"),
    ([1j, 1.0], "(complex)"),
    (np.ones((2, 2)), "returned the score [1.0, 1.0] (list)"),
]


@pytest.mark.parametrize(("returned", "scores"), RETURNED)
def test_returns_become_floats_or_none(returned, scores) -> None:
    got = load_reward(lambda completions: returned)(completions=["a", "b"])
    assert got == scores
    assert all(score is None or type(score) is float for score in got)


@pytest.mark.parametrize(("returned", "says"), BREACHES)
def test_breaches_name_the_reward(returned, says) -> None:
    with pytest.raises(ContractError) as caught:
        load_reward(lambda completions: returned, name="mine")(completions=["a", "b"])
    assert says in str(caught.value)
    assert "'mine'" in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_coroutine_from_a_plain_function_is_said() -> None:
    with pytest.raises(ContractError, match="declare it with async def"):
        load_reward(lambda completions: slow_lengths(None, completions, None))(completions=["a"])
    with pytest.raises(ContractError, match="declare it with async def"):
        load_verifier(lambda completion, reference: slow_exact(completion, reference))("a", "b")


VERDICTS = [
    (True, Verdict(1.0)),
    (0, Verdict(0.0)),
    (0.25, Verdict(0.25)),
    (None, Verdict(None)),
    (float("nan"), Verdict(None)),
    (np.float64(0.5), Verdict(0.5)),
    (torch.tensor(0.5), Verdict(0.5)),
    (Verdict(1, "ok"), Verdict(1.0, "ok")),
    (Verdict(np.float32(0.5), "ok", metrics={"a": 1.0}), Verdict(0.5, "ok", metrics={"a": 1.0})),
    (Verdict(float("nan"), "odd"), Verdict(None, "odd")),
    (Verdict.abstain("unsure"), Verdict(None, "unsure")),
]


@pytest.mark.parametrize(("returned", "verdict"), VERDICTS)
def test_a_verifier_always_gives_a_verdict(returned, verdict) -> None:
    async def later(completion, reference):
        return returned

    got = load_verifier(lambda completion, reference: returned)("c", "r")
    assert got == verdict
    assert got.score is None or type(got.score) is float
    assert asyncio.run(load_verifier(later)("c", "r")) == verdict


@pytest.mark.parametrize("returned", ["yes", [1.0], Verdict("1"), object(), {"score": 1.0}])
def test_an_odd_verdict_names_the_verifier(returned) -> None:
    def mine(completion, reference):
        return returned

    with pytest.raises(ContractError, match="'mine' returned the score"):
        load_verifier(mine)("c", "r")


def test_a_verifier_sees_text_its_reference_and_the_columns_it_names() -> None:
    got = []

    def nosy(completion, reference, level, prompt, completion_ids, absent=None, **others):
        got.append((completion, reference, level, prompt, completion_ids, absent, others))
        return 1.0

    chat = [
        {"role": "assistant", "content": "first"},
        {"role": "tool", "content": "t"},
        {"role": "assistant", "content": "last"},
    ]
    load_reward(nosy)(
        prompts=["p"], completions=[chat], completion_ids=[[5]], gold=["g"], level=[2], extra=["e"], trainer_state=None
    )
    assert got == [("last", "g", 2, "p", [5], None, {"gold": "g", "extra": "e"})]


@pytest.mark.parametrize(
    ("column", "columns", "seen"),
    [
        (None, {"reference": 1, "answer": 2, "solution": 3, "gold": 4}, 1),
        (None, {"answer": 2, "solution": 3, "gold": 4}, 2),
        (None, {"gold": 4, "solution": 3}, 3),
        (None, {"gold": 4}, 4),
        (None, {"reference": None, "answer": 2}, 2),
        ("truth", {"truth": 5, "reference": 1}, 5),
        (None, {"reference": 0}, 0),
        (None, {"reference": ""}, ""),
    ],
)
def test_where_the_reference_comes_from(column, columns, seen) -> None:
    loaded = load_reward(lambda completion, reference: Verdict(1.0, extracted=repr(reference)), reference_column=column)
    assert loaded.judge("c", columns).extracted == repr(seen)


def test_a_row_without_reference_abstains_and_says_so() -> None:
    loaded = load_reward(exact)
    assert loaded.judge("c", {"answer": None}) == Verdict(None, "no reference: column 'answer' is empty in this row")
    assert loaded(completions=["a", "b"], answer=["a", None]) == [1.0, None]
    assert load_verifier(exact)("a").score is None
    without = load_reward(lambda completion: bool(completion))
    assert without(completions=["a", ""]) == [1.0, 0.0]


def test_only_a_verifier_judges() -> None:
    with pytest.raises(UsageError, match="'lengths' is a reward function"):
        load_reward(lengths).judge("a", {})


def test_verdicts_reach_the_trainers_log() -> None:
    extra, metrics = {}, {}

    def telling(completion, reference):
        if completion == "a":
            return Verdict(1.0, extracted="A", metrics={"tries": 2.0, "only": 5.0}, columns={"note": "n"})
        return Verdict(None, metrics={"tries": 4.0})

    scores = load_reward(telling)(
        completions=["a", "b"], answer=["a", "b"], log_extra=extra.__setitem__, log_metric=metrics.__setitem__
    )
    assert scores == [1.0, None]
    assert extra == {"telling/extracted": ["A", ""], "note": ["n", None]}
    assert metrics == {"tries": 3.0, "only": 5.0}


def test_async_verdicts_are_judged_together() -> None:
    running = 0
    most = 0

    async def counting(completion, reference):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return Fraction(1, 2) == reference

    loaded = load_reward(counting)
    assert asyncio.run(loaded(completions=["a"] * 5, answer=[Fraction(1, 2)] * 5)) == [1.0] * 5
    assert most == 5


def test_what_is_no_component() -> None:
    for odd in (3, None, [lengths]):
        with pytest.raises(ContractError, match="expected a function"):
            load_reward(odd)
    with pytest.raises(ContractError, match="takes neither 'completions'"):
        load_reward(lambda answer: [1.0])
    with pytest.raises(ContractError, match="has neither verify nor __call__"):
        load_reward(dict)


def test_names_and_docstrings_follow_the_author() -> None:
    loaded = load_reward(Close, name="close_to")
    assert loaded.__name__ == "close_to"
    assert repr(loaded) == "<verifier 'close_to'>"
    assert load_reward(functools.partial(declared, bonus=1.0)).__doc__ == ""
    assert load_verifier(Close).component.name == "Close"
