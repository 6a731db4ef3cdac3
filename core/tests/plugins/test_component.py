"""One reward, whatever the author wrote: function, class, partial, instance, coroutine, reward or verifier."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import pickle
from typing import Any

import pytest
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
