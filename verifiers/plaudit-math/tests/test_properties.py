"""Properties that hold for all answers, not only for those in the tables."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit_math import verify

integers = st.integers(-(10**12), 10**12)
atoms = st.one_of(
    st.integers(0, 999).map(str),
    st.sampled_from(["x", "y", "n", r"\pi", "a_1", r"\theta"]),
    st.builds(lambda a, b: f"{a}.{b}", st.integers(0, 99), st.integers(1, 99)),
)


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda p: rf"\frac{{{p[0]}}}{{{p[1]}}}"),
        pair.map(lambda p: f"({p[0]}+{p[1]})"),
        pair.map(lambda p: f"({p[0]}-{p[1]})"),
        pair.map(lambda p: rf"{p[0]} \cdot {p[1]}"),
        inner.map(lambda p: rf"\sqrt{{{p}}}"),
        inner.map(lambda p: f"({p})^{{2}}"),
        inner.map(lambda p: rf"\sin({p})"),
    )


expressions = st.recursive(atoms, combine, max_leaves=6)
answers = st.one_of(
    expressions,
    st.lists(expressions, min_size=2, max_size=4).map(", ".join),
    st.lists(expressions, min_size=2, max_size=3).map(lambda items: f"({', '.join(items)})"),
    st.lists(expressions, min_size=1, max_size=3).map(lambda items: rf"\{{{', '.join(items)}\}}"),
    expressions.map(lambda value: f"z = {value}"),
)


def score(answer: str, gold: str) -> float | None:
    return verify(rf"Thus \boxed{{{answer}}}.", gold).score


@given(answers)
@settings(max_examples=150, deadline=None)
def test_every_gold_passes_itself(gold: str) -> None:
    assert score(gold, f"${gold}$") == 1.0


@given(answers, answers)
@settings(max_examples=150, deadline=None)
def test_the_order_of_arguments_does_not_matter(left: str, right: str) -> None:
    assert (verify(rf"\boxed{{{left}}}", right, gold_precision=False).score == 1.0) == (
        verify(rf"\boxed{{{right}}}", left, gold_precision=False).score == 1.0
    )


@given(answers)
@settings(max_examples=100, deadline=None)
def test_styling_changes_nothing(gold: str) -> None:
    restyled = gold.replace(r"\frac", r"\dfrac").replace("(", r"\left(").replace(")", r"\right)").replace(", ", r",\, ")
    assert score(rf"\displaystyle {restyled}", gold) == 1.0
    assert score(gold.replace("+", " + ").replace("-", "−"), gold) == 1.0


@given(integers, integers)
@settings(max_examples=200, deadline=None)
def test_integers_are_equal_only_to_themselves(left: int, right: int) -> None:
    assert score(str(left), str(right)) == float(left == right)
    assert score(f"{left:,}", str(left)) == 1.0


@given(st.fractions(max_denominator=10**6), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_fractions_in_any_terms(value: Fraction, factor: int) -> None:
    gold = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    assert score(rf"\frac{{{value.numerator * factor}}}{{{value.denominator * factor}}}", gold) == 1.0
    other = value + Fraction(1, value.denominator)
    assert score(f"{other.numerator}/{other.denominator}", gold) == 0.0


@given(st.integers(10, 10**9), st.integers(0, 8), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_a_changed_digit_fails(gold: int, place: int, change: int) -> None:
    digits = list(str(gold))
    place %= len(digits)
    digits[place] = str((int(digits[place]) + change) % 10)
    assert score("".join(digits), str(gold)) == 0.0


@given(st.text(max_size=200), st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_gets_a_verdict(completion: str, reference: str) -> None:
    assert verify(completion, reference).score in (0.0, 1.0, None)


@given(
    st.text(alphabet=r"\{}[]()^_$,.0123x+-=<>|!%&fracsqtboxed ", max_size=120), st.sampled_from(["5", "(1,2)", "x=3"])
)
@settings(max_examples=300, deadline=None)
def test_any_latex_gets_a_verdict(answer: str, gold: str) -> None:
    assert verify(rf"\boxed{{{answer}}}", gold, timeout_s=1.0).score in (0.0, 1.0)


_HASHES = """
from plaudit_math import verify
from plaudit_math.corpus import cases
families = ("algebra_equiv", "sets_tuples_lists", "intervals_inequalities")
rows = [row for row in cases() if row["family"] in families]
rows = rows[::{step}]
print("".join(str(int(verify(row["completion"], row["gold"]).score)) for row in rows)[::{step}])
"""


def test_the_same_in_every_order_and_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _HASHES.format(step=step)],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, step in (("0", 1), ("1", -1), ("2", 1))
    }
    assert len(outputs) == 1


def test_ten_thousand_pairs_keep_memory_flat() -> None:
    code = (
        "import resource\nfrom plaudit_math import verify\n"
        "def used(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "def judge(i): verify(rf'\\boxed{{\\frac{{{i}}}{{7}}}}', rf'{i}x+{i}' if i % 5 == 0 else f'{i}')\n"
        "for i in range(200): judge(i)\n"
        "before = used()\n"
        "for i in range(200, 10_200): judge(i)\n"
        "print(used() - before)"
    )
    grown = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert grown < 200
