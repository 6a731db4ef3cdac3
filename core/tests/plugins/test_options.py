"""Options are checked against the signature before anything loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from plaudit import UsageError, load_reward, reward


class Case(Enum):
    KEEP = "keep"
    FOLD = "fold"


def judge(
    completion, reference, *, tolerance: float = 1e-6, strict: bool = False, n: int = 3, mode: Literal["a", "b"] = "a",
    label: str | None = None, limit: int | None = None, names: list[str] = ("x",), pair: tuple[int, int] = (1, 2),
    many: tuple[str, ...] = (), seen: set[int] = frozenset(), table: dict[str, int] | None = None,
    where: Path = Path("."), either: int | list[int] = 0, some: Sequence[float] = (), free=None,
    any_map: Mapping[str, Any] | None = None, note: Annotated[int, "unit"] = 0, case: Case = Case.KEEP,
    thing: NotDefinedAnywhere = None, anything: Any = None,  # noqa: F821
):  # fmt: skip
    judge.got = {**locals()}
    return 1.0


FITS = [
    ("tolerance", 1), ("tolerance", 0.5), ("strict", True), ("n", 4), ("mode", "b"), ("label", "x"), ("label", None),
    ("limit", None), ("limit", 3), ("names", ["a"]), ("names", []), ("pair", [3, 4]), ("many", ["a", "b", "c"]),
    ("seen", [1, 2]), ("table", {"a": 1}), ("where", "x/y"), ("either", 3), ("either", [1]), ("some", [1, 2.5]),
    ("any_map", {"a": [1]}), ("case", "fold"), ("case", Case.FOLD),
    ("free", object), ("note", 3), ("thing", 3), ("anything", "x"),
]  # fmt: skip
DOES_NOT = [
    ("tolerance", "0.5", "option 'tolerance' is '0.5' (str); expected float"),
    ("tolerance", True, "expected float"),
    ("tolerance", None, "expected float"),
    ("strict", 1, "expected bool"),
    ("strict", "true", "expected bool"),
    ("n", 1.0, "expected int"),
    ("n", True, "expected int"),
    ("mode", "c", "expected Literal['a', 'b']"),
    ("label", 3, "expected str | None"),
    ("limit", "3", "expected int | None"),
    ("names", "abc", "expected list[str]"),
    ("names", [1], "expected list[str]"),
    ("pair", [1], "expected tuple[int, int]"),
    ("pair", [1, "2"], "expected tuple[int, int]"),
    ("table", [1], "expected dict[str, int] | None"),
    ("table", {"a": "b"}, "expected dict[str, int] | None"),
    ("where", 3, "expected Path"),
    ("either", "x", "expected int | list[int]"),
    ("some", ["x"], "expected Sequence[float]"),
    ("note", "x", "expected"),
    ("case", "lower", "expected one of 'keep', 'fold'"),
    ("tolerence", 1.0, "has no option 'tolerence'; did you mean 'tolerance'?"),
    ("zzz", 1.0, "has no option 'zzz' (it has tolerance, strict, n, mode"),
    ("completion", "x", "has no option 'completion'"),
    ("reference", "x", "has no option 'reference'"),
]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch):
    """judge with every hint resolvable, and the same without."""
    annotations = {name: hint for name, hint in judge.__annotations__.items() if name != "thing"}
    monkeypatch.setattr(judge, "__annotations__", annotations)
    return judge


@pytest.mark.parametrize(("name", "value"), FITS)
def test_what_fits_reaches_the_function(checked, name: str, value: Any) -> None:
    load_reward(checked, options={name: value})(completions=["c"], reference=["r"])
    got = checked.got[name]
    if name == "case":
        assert got is Case.FOLD
        return
    assert got == value or got in (tuple(value), set(value), Path(str(value)))
    if name in ("pair", "many"):
        assert isinstance(got, tuple)
    if name == "seen":
        assert isinstance(got, set)
    if name == "where":
        assert isinstance(got, Path)


@pytest.mark.parametrize(("name", "value", "says"), DOES_NOT)
def test_what_does_not_fit_is_refused_in_words(checked, name: str, value: Any, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_reward(checked, options={name: value})
    assert says in str(caught.value)
    assert "'judge'" in str(caught.value)


def test_hints_that_cannot_be_resolved_are_not_checked() -> None:
    load_reward(judge, options={"thing": 3, "tolerance": "x"})


class WithInit:
    """Its __init__ has the options."""

    def __init__(self, model: str, scale: float = 1.0, *, extra: int = 0) -> None:
        self.scale = scale

    def verify(self, completion, reference, *, bonus: float = 0.0):
        return self.scale + bonus


class AnyOption:
    def __init__(self, **settings: int) -> None:
        self.settings = settings

    def __call__(self, completions, **columns):
        return [float(self.settings.get("x", 0)) for _ in completions]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "needs the option 'model'"),
        ({"model": 3}, "option 'model' is 3 (int); expected str"),
        ({"model": "m", "scal": 1}, "has no option 'scal'; did you mean 'scale'?"),
        ({"model": "m", "bonus": 1.0}, "has no option 'bonus'"),
        ({"model": "m", "self": 1}, "has no option 'self'"),
    ],
)
def test_a_class_takes_its_options_in_init(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_reward(WithInit, options=options)
    assert says in str(caught.value)


@dataclass
class Recorded:
    """A dataclass is a class like any other."""

    scale: float
    limit: int = None  # type: ignore[assignment]

    def verify(self, completion: str, reference: str) -> float:
        return self.scale


def test_a_dataclass_and_an_implicit_none() -> None:
    assert load_reward(Recorded, options={"scale": 2, "limit": None})(completions=["a"], gold=["b"]) == [2.0]
    with pytest.raises(UsageError, match="option 'limit' is 'x'"):
        load_reward(Recorded, options={"scale": 2.0, "limit": "x"})


def test_a_class_with_its_options_given() -> None:
    loaded = load_reward(WithInit, options={"model": "m", "scale": 2})
    assert loaded(completions=["a"], reference=["b"]) == [2.0]
    assert load_reward(AnyOption, options={"x": 3})(completions=["a"]) == [3.0]


def test_a_live_instance_takes_no_options() -> None:
    with pytest.raises(UsageError, match="has no option 'scale'"):
        load_reward(AnyOption(x=1), options={"scale": 1})
    loaded = load_reward(AnyOption(x=1))
    with pytest.raises(UsageError, match="loaded already"):
        load_reward(loaded, options={"x": 2})


def plain(completions, *, scale=None, **columns):
    return [1.0 for _ in completions] if scale is None else list(scale)


def test_a_plain_function_gets_columns_as_trl_gives_them_unless_the_option_is_set() -> None:
    columns = {"completions": ["a", "b"], "scale": [7.0, 8.0]}
    assert load_reward(plain)(completions=["a", "b"]) == [1.0, 1.0]
    assert load_reward(plain)(**columns) == [7.0, 8.0]
    assert load_reward(plain, options={"scale": [2.0, 3.0]})(**columns) == [2.0, 3.0]


def test_a_column_never_reaches_the_option_of_a_declared_reward_or_of_a_verifier() -> None:
    def judged(completion, *, scale=1.0, **columns):
        return scale

    @reward
    def declared(completions, *, scale=1.0, **columns):
        return [scale for _ in completions]

    for function in (judged, declared):
        assert load_reward(function)(completions=["a", "b"], scale=[7.0, 8.0]) == [1.0, 1.0]
