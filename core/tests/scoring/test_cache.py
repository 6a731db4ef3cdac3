"""The score cache: what is kept, what makes a difference, its cap, its command line, several processes."""

from __future__ import annotations

import multiprocessing
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from plaudit import UsageError, load_reward, verifier
from plaudit.cli import main
from plaudit.scoring.cache import FILE_NAME, ScoreCache, clear, connect, usage
from plaudit.scoring.outcome import Outcome
from plaudit.scoring.spec import RewardSpec

SERVED = Path(__file__).parent / "data" / "served.py"
pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """How often rewards of served.py have run since the last question."""
    path = tmp_path / "calls"
    monkeypatch.setenv("SERVED_CALLS", str(path))
    seen = 0

    def count() -> int:
        nonlocal seen
        total = len(path.read_text().splitlines()) if path.exists() else 0
        new, seen = total - seen, total
        return new

    return count


def spec(name="equal", **options):
    return RewardSpec(load_reward(f"{SERVED}:{name}", options=options), name, cache=True)


def test_a_second_run_reads_what_the_first_one_wrote(score, calls, tmp_path):
    completions = ["a", "B", "abstain", "raise", "c"]
    columns = {"answer": ["a", "b", "x", "x", {"not": "text"}], "unit": ["m"] * 5}
    run = lambda: score([spec()], completions, columns=columns, cache_folder=tmp_path)  # noqa: E731
    first, second = run(), run()
    assert calls() == 5 + 2  # what abstained or failed is tried again
    assert first.scores == second.scores == ((1.0,), (1.0,), (None,), (None,), (0.0,))
    assert first.columns == second.columns
    assert first.metrics == second.metrics
    assert second.runtime["scoring/equal/cache_hits"] == 3


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"strict": True}},
        {"completions": ["A"]},
        {"columns": {"answer": ["b"], "unit": [""]}},
        {"columns": {"answer": ["a"], "unit": ["km"]}},
        {"reference_column": "gold"},
    ],
)
def test_everything_that_matters_is_in_the_key(change, score, calls, tmp_path):
    columns = {"answer": ["a"], "gold": ["z"], "unit": [""]}
    score([spec()], ["a"], columns=columns, cache_folder=tmp_path)
    made = replace(spec(**change.get("options", {})), reference_column=change.get("reference_column"))
    columns = {**columns, **change.get("columns", {})}
    score([made], change.get("completions", ["a"]), columns=columns, cache_folder=tmp_path)
    assert calls() == 2


def test_a_changed_file_is_another_reward(score, tmp_path):
    path = tmp_path / "mine.py"
    for result in (1.0, 0.5):
        path.write_text(
            f"from plaudit import verifier\n\n@verifier\ndef v(completion, reference):\n    return {result}\n"
        )
        made = RewardSpec(load_reward(f"{path}:v"), "v", cache=True)
        assert score([made], ["a"], cache_folder=tmp_path).scores == ((result,),)


def test_columns_that_json_cannot_write_are_not_cached(score, calls, tmp_path):
    for _ in range(2):
        score([spec()], ["a"], columns={"answer": [{"s": {1, 2}}]}, cache_folder=tmp_path)
    assert calls() == 2


def test_a_closure_cannot_be_cached(score, tmp_path):
    @verifier
    def local(completion, reference):
        return 1.0

    with pytest.raises(UsageError, match="'local' cannot be cached"):
        score([RewardSpec(load_reward(local), "local", cache=True)], ["a"], cache_folder=tmp_path)


def test_a_broken_file_only_misses(score, calls, tmp_path, caplog):
    (tmp_path / FILE_NAME).write_bytes(b"this is no database, but it is long enough to be one" * 50)
    assert score([spec()], ["a", "b"], columns={"answer": ["a", "x"]}, cache_folder=tmp_path).scores == ((1.0,), (0.0,))
    assert calls() == 2
    assert caplog.text.count("cannot be used") == 1


def test_the_size_is_capped_and_the_longest_unused_go(tmp_path):
    cache = ScoreCache(tmp_path, max_mb=1)
    for i in range(1100):
        cache.keep(f"{i:064}", "r", Outcome([1.0], {"c": ["x" * 2000]}))
    cache.close()
    (one,) = usage(cache.path)
    assert one.bytes < 1.6 * 2**20
    with connect(cache.path) as database:
        kept = {row[0] for row in database.execute("SELECT key FROM scores")}
    assert f"{1099:064}" in kept
    assert f"{0:064}" not in kept


def write_many(folder: str, offset: int) -> None:
    cache = ScoreCache(Path(folder))
    for i in range(200):
        cache.keep(f"{(i + offset) % 300:064}", "r", Outcome([float((i + offset) % 300)]))
    cache.close()


def test_several_processes_share_one_file(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write_many, args=(str(tmp_path), 100 * n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    found: dict[str, float] = {}
    cache = ScoreCache(tmp_path)
    for i in range(300):
        cache.look_up(f"{i:064}", lambda outcome, i=i: found.update({str(i): outcome and outcome.values[0]}))
    cache.close()
    assert found == {str(i): float(i) for i in range(300)}


def test_the_command_shows_and_clears(score, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PLAUDIT_CACHE", str(tmp_path))
    assert main(["cache"]) == 0
    assert "is empty" in capsys.readouterr().out
    score([spec(), spec("ids")], ["a", "b"])
    assert main(["cache", "show"]) == 0
    shown = capsys.readouterr().out
    assert "equal" in shown
    assert "ids" in shown
    assert main(["cache", "clear", "--reward", "nope"]) == 2
    assert "it has: equal, ids" in capsys.readouterr().err
    assert main(["cache", "clear", "--reward", "ids"]) == 0
    assert "cleared 2 scores" in capsys.readouterr().out
    assert [one.reward for one in usage(tmp_path / FILE_NAME)] == ["equal"]
    assert clear(tmp_path / FILE_NAME) == 2
    (tmp_path / FILE_NAME).write_bytes(b"x" * 5000)
    assert main(["cache"]) == 2
    assert "is not a score cache" in capsys.readouterr().err


def test_a_locked_file_only_misses(score, tmp_path):
    database = connect(tmp_path / FILE_NAME)
    database.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(sqlite3.OperationalError):
            sqlite3.connect(tmp_path / FILE_NAME, timeout=0).execute("DELETE FROM scores")
    finally:
        database.execute("ROLLBACK")
        database.close()
    assert score([spec()], ["a"], columns={"answer": ["a"]}, cache_folder=tmp_path).scores == ((1.0,),)
