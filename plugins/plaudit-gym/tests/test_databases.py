"""Questions about a database: it is read, never written, and answers are compared by value."""

from __future__ import annotations

import pytest
from plaudit_gym.databases import SqliteQuestions, shop

SHOP = {key: value for key, value in shop(size=1)[0].items() if key != "prompt"}


def test_the_database_is_read_and_never_written():
    agent = SqliteQuestions()
    agent.reset(**SHOP)
    assert "CREATE TABLE people" in agent.tables()
    count = int(agent.query("SELECT count(*) FROM people"))
    assert count >= 4
    assert agent.query("DELETE FROM people").startswith("error:")
    assert agent.query("ATTACH 'x.db' AS x").startswith("error:")
    assert agent.query("nonsense").startswith("error:")
    assert agent.query("SELECT 1 WHERE 0") == "[no rows]"
    assert int(agent.query("SELECT count(*) FROM people")) == count
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    assert "longer than 0.2 s" in _answer(SqliteQuestions(timeout_s=0.2), endless)
    wide = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 30) SELECT i, NULL FROM n"
    assert agent.query(wide).splitlines()[-1] == "[… 10 more rows]"
    assert agent.query(wide).splitlines()[0] == "1 | NULL"


def _answer(agent, sql):
    agent.reset(**SHOP)
    return agent.query(sql)


@pytest.mark.parametrize(
    ("wanted", "given", "score"),
    [
        ("7", "7", 1),
        ("7", "7.0", 1),
        ("7", "8", 0),
        ("Ada", " ada ", 1),
        ("Ada", "Ben", 0),
        ("7", "", 0),
        ("7", 7, 1),
        ("7", 7.0, 1),
        ("7", None, 0),
        ("7", ["7"], 0),
        ("-3", "-3", 1),
    ],
)
def test_answers_about_the_database(wanted, given, score):
    agent = SqliteQuestions()
    agent.reset(setup=["CREATE TABLE t (a)"], answer=wanted)
    assert agent.get_reward() == 0.0
    agent.answer("something else")
    agent.answer(given)
    assert agent.get_reward() == score


def test_a_database_that_cannot_be_made_is_refused():
    with pytest.raises(ValueError, match="makes no database"):
        SqliteQuestions().reset(setup=["CREATE TABLE"], answer="1")
