"""The parts that need no sandbox: extraction, comparison, plain data, asserts, references."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit_code.asserts import SplitAssert, WholeTest, take_apart
from plaudit_code.candidate import read_answer
from plaudit_code.compare import same_output, same_value
from plaudit_code.extract import find_program
from plaudit_code.inside import plain
from plaudit_code.reference import BadReference, OutputTest, read_task

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_data_crosses_as_it_is(value):
    crossed = plain.decode(json.loads(json.dumps(plain.encode(value))))
    assert crossed == value
    assert type(crossed) is type(value)
    assert same_value(crossed, value)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_message_from_inside_is_an_answer_or_an_error(message):
    answer = read_answer(json.dumps(message).encode())
    assert answer.error is not None or "value" in message


class Everything:
    def __eq__(self, other):
        return True

    __hash__ = None


class Number(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize("value", [Everything(), object(), lambda: 1, iter([1]), Exception("x"), type])
def test_what_is_no_plain_data_equals_nothing(value):
    crossed = plain.decode(plain.encode(value))
    assert not any(same_value(crossed, expected) for expected in (1, None, True, "x", [], {}, crossed))
    assert not same_value(plain.decode(plain.encode([value])), [1])


def test_subclasses_cross_as_the_plain_type_and_lose_their_operators():
    assert plain.encode(Number(3)) == 3
    looped: list = []
    looped.append(looped)
    assert "nested too deeply" in json.dumps(plain.encode(looped))


@pytest.mark.parametrize(
    ("value", "expected", "tolerance", "same"),
    [
        ((1, 2), [1, 2], None, True),
        ([1, 2], [2, 1], None, False),
        (1.0, 1, None, True),
        (False, 0, None, True),
        (False, None, None, False),
        (None, None, None, True),
        ("1", 1, None, False),
        (0.1 + 0.2, 0.3, None, False),
        (0.1 + 0.2, 0.3, 1e-9, True),
        (float("nan"), 1.0, 1e-6, False),
        (float("inf"), 1.0, 1e-6, False),
        ({1: "a"}, {"1": "a"}, None, True),
        ({"a": 1, "b": 2}, {"a": 1}, None, False),
        ({1, 2}, [1, 2], None, False),
        ({2, 1}, {1, 2}, None, True),
        ({1.0000001}, {1}, 1e-6, True),
        (10**400, 1.0, 1e-6, False),
        ("a", "a", None, True),
    ],
)
def test_values(value, expected, tolerance, same):
    assert same_value(value, expected, tolerance) is same


@pytest.mark.parametrize(
    ("output", "expected", "how", "same"),
    [
        ("1  2\n3", "1 2 3\n", "tokens", True),
        ("1 2", "1 2 3", "tokens", False),
        ("a \nb\n\n", "a\nb", "lines", True),
        ("a\nb", "a b", "lines", False),
        ("a\n", "a", "exact", False),
        ("b\na", "a\nb\n", "unordered", True),
        ("0.3333", "0.33333333", "float:1e-3", True),
        ("nan", "nan", "float:1e-3", True),
        ("nan", "1", "float:1e-3", False),
        ("inf", "1", "float:1e-3", False),
        ("1_0", "10", "float:1e-3", False),
        ("9" * 6000, "9" * 6000, "float:1e-6", True),
        ("yes 1.0", "yes 1", "float:1e-6", True),
        ("no 1.0", "yes 1", "float:1e-6", False),
    ],
)
def test_outputs(output, expected, how, same):
    assert same_output(output, expected, how) is same


@pytest.mark.parametrize(
    ("code", "expressions"),
    [
        ("assert f(1) == 2", ["f(1)"]),
        ("assert 2 == f(1)", ["f(1)"]),
        ("assert f(1) == 2 and f(2) == 3", ["f(1)", "f(2)"]),
        ("assert sorted(f(1)) == [1]", ["sorted(f(1))"]),
        ("assert not f(1)", ["bool(f(1))"]),
        ("assert f(1)", ["bool(f(1))"]),
        ("def check(candidate):\n    '''doc'''\n    assert candidate(1) is None", ["candidate(1)"]),
        ("METADATA = {}\n\ndef check(candidate):\n    assert candidate(1) != 4", ["candidate(1)"]),
    ],
)
def test_asserts_that_come_apart(code, expressions):
    assert [part.expression for part in take_apart(code, "f")] == expressions


@pytest.mark.parametrize(
    "code",
    [
        "assert abs(f(1) - 2) < 1e-6",
        "assert f(1) == g(2)",
        "import math\nassert math.isclose(f(1), 2)",
        "for n in range(3):\n    assert f(n) == n",
        "assert f(1) + 1 == 3",
        "assert [f(1), 2] == [2, 2]",
        "assert max(f(1), 5) == 5",
    ],
)
def test_asserts_that_would_carry_the_answer_inside_stay_whole(code):
    (part,) = take_apart(code, "f")
    assert isinstance(part, WholeTest)
    assert "f" in part.names


def test_split_asserts_judge_plain_values_only():
    (part,) = take_apart("assert f(1) != 3", "f")
    assert isinstance(part, SplitAssert)
    assert part.passes(4)
    assert not part.passes(3)
    assert not part.passes(plain.Opaque("x"))


@pytest.mark.parametrize(
    ("text", "defines", "expected"),
    [
        ("```python\na = 1\n```\n```python\nb = 2\n```", None, "b = 2"),
        ("```python\ndef f(): pass\n```\n```python\nprint(f())\n```", "f", "def f(): pass"),
        ("```python\nK = 2\n```\n```python\ndef f():\n    return K\n```", "f", "K = 2\ndef f():\n    return K"),
        ("```cpp\nint f;\n```", "f", None),
        ("no code, sorry.", "f", None),
        ("x = 1", None, "x = 1"),
        ("```python\n>>> x = 1\n>>> x\n1\n```", None, "x = 1\nx"),
        ("```python\nif 1:\n\u00a0 x = 1\n```", None, "if 1:\n  x = 1"),
    ],
)
def test_extraction(text, defines, expected):
    assert find_program(text, defines=defines) == expected


@pytest.mark.parametrize(
    ("reference", "match"),
    [
        ("{", "not JSON"),
        (3, "needs 'tests'"),
        ({"mode": "x"}, "mode must be"),
        ({"mode": "function", "tests": []}, "entry_point"),
        ({"mode": "stdio", "tests": [{"stdin": "1"}]}, "stdout"),
        ({"mode": "function", "entry_point": "f", "tests": [{"args": [1]}]}, "'expect'"),
    ],
)
def test_references_that_say_nothing(reference, match):
    with pytest.raises(BadReference, match=match):
        read_task(reference)


def test_long_numbers_are_written_short():
    task = read_task({"mode": "stdio", "tests": [{"stdin": "", "stdout": "<str(2**20000)>\n"}]})
    assert isinstance(task.tests[0], OutputTest)
    assert len(task.tests[0].stdout.strip()) == 6021
    assert task.tests[0].stdout.startswith("39802768403379665923")
