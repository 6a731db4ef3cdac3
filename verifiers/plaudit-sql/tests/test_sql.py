"""The public cases, the package's own corpus, files as databases, limits, and properties of the comparison."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit_sql.compare import respects_order, same_rows
from plaudit_sql.corpus import cases
from plaudit_sql.extract import with_tie_breaker
from plaudit_sql.formatting import bound_formatting
from plaudit_sql.verify import verify_sql

PUBLIC = [json.loads(line) for line in (Path(__file__).parent / "public_sql_cases.jsonl").read_text().splitlines()]
UNDETECTABLE = {"sql-hardcode-03"}  # agrees on every database of its reference; its policy allows any score


@pytest.mark.parametrize("row", [*PUBLIC, *cases()], ids=lambda row: row["id"])
def test_cases(row):
    score = verify_sql(row["completion"], row["reference"], timeout_s=1.0).score
    if row["id"] not in UNDETECTABLE:
        assert score == row["expected"]["score"]


def test_a_file_is_read_and_never_written(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t(x)")
        connection.execute("INSERT INTO t VALUES (1), (2)")
    before = path.read_bytes()
    reference = {"gold_sql": "SELECT SUM(x) FROM t", "databases": [str(path)]}
    assert verify_sql("SELECT 3", reference).score == 1.0
    assert verify_sql("UPDATE t SET x = 3", reference).score == 0.0
    assert verify_sql(f"ATTACH '{tmp_path}/new.db' AS n", reference).score == 0.0
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["shop.db"]
    missing = {"gold_sql": "SELECT 1", "databases": [str(tmp_path / "missing.db")]}
    assert verify_sql("SELECT 1", missing).score is None


def test_the_time_limit_holds_in_a_worker_thread():
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT COUNT(*) FROM r"
    verdicts = []
    reference = {"gold_sql": "SELECT 1", "setup": ["CREATE TABLE t(x)"]}
    thread = threading.Thread(target=lambda: verdicts.append(verify_sql(endless, reference, timeout_s=0.2)))
    thread.start()
    thread.join(30)
    assert verdicts[0].score == 0.0
    assert "longer than 0.2 s" in verdicts[0].reason


@pytest.mark.parametrize("wide", ["'x'", "x'78'"])
@pytest.mark.parametrize(
    "template", ["'%.*c', 800000000", "'%*c', '-800000000'", "'%*c', x'383030303030303030'", "'%d%.800000000c', 1"]
)
def test_a_width_that_takes_seconds_in_one_step_is_refused(template, wide):
    reference = {"gold_sql": "SELECT 1", "setup": ["CREATE TABLE t(x)"]}
    for name in ("printf", "Printf"):
        verdict = verify_sql(f"SELECT {name}({template}, {wide})", reference, timeout_s=5.0)
        assert verdict.score == 0.0
        assert "width above 1000000" in verdict.reason


FLAGS = st.sampled_from(["", "-", "+", "0", "#", ",", "!", "-5", "12", "*", ".2", ".0", "5.*", "*.*"])
DIRECTIVES = st.builds("%{}{}".format, FLAGS, st.sampled_from("dfegsxXoiuzqQwcp%n"))
VALUES = (
    st.integers(-(10**5), 10**5)
    | st.floats(-1e4, 1e4)
    | st.text("ab1é%", max_size=5)
    | st.sampled_from([b"", b"12"])
    | st.none()
)


@given(st.lists(DIRECTIVES | st.text("xy %", max_size=3), max_size=4).map("".join), st.lists(VALUES, max_size=6))
def test_what_is_formatted_is_sqlites_own(template, values):
    bounded = sqlite3.connect(":memory:")
    bound_formatting(bounded, 10**6)
    call = f"SELECT printf({', '.join('?' * (1 + len(values)))})"
    results = [one.execute(call, (template, *values)).fetchone() for one in (sqlite3.connect(":memory:"), bounded)]
    assert results[0] == results[1]


CELLS = st.none() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "1", "a"])
ROWS = st.lists(st.tuples(CELLS, CELLS), max_size=6)


@given(ROWS, st.randoms())
def test_order_does_not_matter_to_a_multiset(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert same_rows(rows, shuffled, 1e-9)
    assert not same_rows([*rows, (None, None)], rows, 1e-9)
    assert not same_rows([*rows, ("", None)], [*rows, (None, None)], 1e-9)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.randoms())
def test_ties_are_free_and_nothing_else(keys, random):
    """Second derivation: a result respects the order when its keys are sorted."""
    rows = [(f"row {number}", key) for number, key in enumerate(keys)]
    gold = sorted(rows, key=lambda row: row[1])
    backwards = rows[::-1]
    other = sorted(backwards, key=lambda row: row[1])
    shown = random.sample(rows, len(rows))
    names = [(name,) for name, _ in shown]
    sorted_keys = [key for _, key in shown] == sorted(keys)
    assert respects_order(names, [row[:1] for row in gold], [row[:1] for row in other], 1e-9) == sorted_keys


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM t", None),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", None),
        ("SELECT a FROM t ORDER BY b;", "SELECT a FROM t ORDER BY b , 1 ASC"),
        ("SELECT a FROM t ORDER BY b LIMIT 3", "SELECT a FROM t ORDER BY b  , 1 ASC LIMIT 3"),
        ("SELECT ' limit ' FROM t ORDER BY b -- end", "SELECT ' limit ' FROM t ORDER BY b , 1 ASC  -- end"),
    ],
)
def test_tie_breaker(query, expected):
    assert with_tie_breaker(query, 1, "ASC") == expected
