"""Sweeps: which trials are stopped, which values are tried, what is refused."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from plaudit import UsageError
from plaudit.run.sweep.halving import Rungs
from plaudit.run.sweep.schema import Parameter, StopRule, SweepFile, load_sweep_file
from plaudit.run.sweep.search import Search, combinations

RATE = Parameter(low=1e-6, high=1e-3, log=True)


def sweep_of(tmp_path, **more):
    return SweepFile(run="run.toml", output_dir=str(tmp_path), **{"params": {"config.learning_rate": RATE}, **more})


def test_the_best_third_goes_on_at_each_rung():
    rungs = Rungs(StopRule(after=10, factor=3), maximize=True)
    assert [rungs.stops(trial, 9, 0.0) for trial in range(3)] == [False] * 3
    stopped = [rungs.stops(trial, 12, score) for trial, score in enumerate([0.5, 0.4, 0.9, 0.1, 0.8, 0.7])]
    assert stopped == [False, False, False, True, True, True]
    assert not rungs.stops(2, 29, 0.0)
    assert not rungs.stops(2, 30, 0.9)


def test_less_is_better_when_minimising():
    rungs = Rungs(StopRule(after=1, factor=2), maximize=False)
    assert [rungs.stops(trial, 1, score) for trial, score in enumerate([0.5, 0.9, 0.1])] == [False, True, False]


def test_what_is_no_number_is_the_worst():
    for maximize in (True, False):
        rungs = Rungs(StopRule(after=1, factor=2), maximize=maximize)
        assert not rungs.stops(0, 1, 0.5)
        assert rungs.stops(1, 1, float("nan"))


def test_a_trial_is_judged_once_at_a_rung():
    rungs = Rungs(StopRule(after=1, factor=2), maximize=True)
    rungs.stops(0, 1, 0.9)
    assert rungs.stops(1, 1, 0.1)
    assert not rungs.stops(1, 1, 0.1)


def test_proposals_lie_in_their_ranges_and_follow_from_the_seed(tmp_path):
    params = {"a": RATE, "b": Parameter(choices=(4, 8)), "c": Parameter(low=1, high=9)}
    found = []
    for part in "ab":
        search = Search(sweep_of(tmp_path / part, params=params, seed=3))
        found.append([search.propose(trial) for trial in range(5)])
    assert found[0] == found[1]
    for values in found[0]:
        assert 1e-6 <= values["a"] <= 1e-3
        assert values["b"] in (4, 8)
        assert values["c"] in range(1, 10)


def test_a_range_ends_at_its_last_step(tmp_path):
    search = Search(sweep_of(tmp_path, params={"a": Parameter(low=1, high=12, step=5), "b": RATE}))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert {search.propose(number)["a"] for number in range(20)} == {1, 6, 11}


def test_a_grid_is_every_combination(tmp_path):
    params = {"a": Parameter(choices=(1, 2)), "b": Parameter(choices=("x", "y", "z"))}
    sweep = sweep_of(tmp_path, params=params, grid=True)
    assert len(combinations(sweep)) == 6
    search = Search(sweep)
    found = [search.propose(trial) for trial in range(6)]
    assert {(one["a"], one["b"]) for one in found} == {(a, b) for a in (1, 2) for b in "xyz"}


def test_a_clone_differs_in_one_value_within_its_range(tmp_path):
    params = {
        "a": RATE,
        "b": Parameter(choices=(4, 8)),
        "c": Parameter(low=1, high=9),
        "d": Parameter(low=2, high=17, step=4),
    }
    search = Search(sweep_of(tmp_path, params=params))
    before = {"a": 9e-4, "b": 4, "c": 9, "d": 14}
    moved = set()
    for number in range(30):
        after = search.changed(before, number)
        changed = [name for name in before if after[name] != before[name]]
        moved |= set(changed)
        assert len(changed) <= 1
        assert after == search.changed(before, number)
        assert after["a"] <= 1e-3
        assert after["c"] <= 9
        assert after["d"] in (2, 6, 10, 14)
    assert moved >= {"a", "b", "c"}


def test_a_study_that_is_opened_again_goes_on_as_it_would_have(tmp_path):
    """Proposals of one process and of six, one after another, with the same results."""

    def worth(values):
        return -abs(values["a"] - 2e-5) * 1e5 + (values["b"] == [1, 2])

    params = {"a": RATE, "b": Parameter(choices=([1], [1, 2]))}
    whole = sweep_of(tmp_path / "whole", params=params, trials=12)
    parts = replace(whole, output_dir=str(tmp_path / "parts"))
    search, found = Search(whole), []
    for number in range(12):
        found.append(search.propose(number))
        search.tell(number, worth(found[-1]))
    again = []
    for number in range(12):
        again.append(Search(parts).propose(number))
        assert Search(parts).propose(number) == again[-1]
        Search(parts).tell(number, worth(again[-1]))
        Search(parts).tell(number, -99.0)
    assert again == found
    assert len({values["a"] for values in found}) == 12


def test_what_is_no_number_is_a_failure_of_the_trial(tmp_path):
    search = Search(sweep_of(tmp_path))
    for number, score in enumerate((float("nan"), float("inf"), None, 0.5)):
        search.propose(number)
        search.tell(number, score)
    assert [trial.state.name for trial in search._study.trials] == ["FAIL", "FAIL", "FAIL", "COMPLETE"]


def test_a_journal_that_a_kill_cut_off_is_read_up_to_there(tmp_path):
    first = Search(sweep_of(tmp_path)).propose(0)
    journal = tmp_path / "study.journal"
    (tmp_path / "study.journal.lock").touch()
    with journal.open("a") as file:
        file.write('{"op_code": 4, "wor')
    search = Search(sweep_of(tmp_path))
    assert search.propose(0) == first
    assert search.propose(1) != first


def test_a_proposal_that_a_kill_cut_off_is_completed(tmp_path):
    params = {"a": RATE, "b": Parameter(low=1, high=9)}
    first = Search(sweep_of(tmp_path, params=params)).propose(0)
    journal = tmp_path / "study.journal"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]))
    again = Search(sweep_of(tmp_path, params=params)).propose(0)
    assert again["a"] == first["a"]
    assert 1 <= again["b"] <= 9


GOOD = """
run = "run.toml"
output_dir = "out"
[params."config.learning_rate"]
low = 1e-6
high = 1e-3
log = true
[params.config.num_generations]
choices = [4, 8]
"""


def test_a_sweep_file_is_read(tmp_path):
    (tmp_path / "sweep.toml").write_text(GOOD)
    (tmp_path / "run.toml").write_text("")
    sweep = load_sweep_file(str(tmp_path / "sweep.toml"))
    assert sweep.run == str(tmp_path / "run.toml")
    assert sweep.params == {"config.learning_rate": RATE, "config.num_generations": Parameter(choices=(4, 8))}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("low = 1e-6", "low = 1"), "expected low below high"),
        (("low = 1e-6", "low = 0"), "log needs low above 0"),
        (("choices = [4, 8]", ""), "num_generations"),
        (('run = "run.toml"', 'run = "run.toml"\ngrid = true'), "needs choices"),
        (('run = "run.toml"', 'run = "run.toml"\nparallel = 0'), "parallel = 0"),
        (('run = "run.toml"', 'run = "run.toml"\ntrails = 3'), "did you mean 'trials'"),
        (("low = 1e-6", "low = -inf"), "expected finite numbers"),
        (("low = 1e-6", "low = 1e-6\nstep = 1e-4"), "step goes with low and high, and not with log"),
        (("choices = [4, 8]", "low = 1\nhigh = 9\nstep = 0.5"), "step = 0.5; expected a whole number above 0"),
        (("choices = [4, 8]", "low = 1\nhigh = 9\nstep = 0"), "step = 0"),
        (("choices = [4, 8]", "low = 1\nhigh = 4\nstep = 10"), "step = 10 leads from low = 1 past high = 4"),
        (("params.config.num_generations", "params.output_dir"), "a folder of its own"),
        (("choices = [4, 8]", "choices = [4, 8]\n[stop]\nfactor = 1"), "factor of at least 2"),
    ],
)
def test_a_wrong_sweep_file_is_refused(tmp_path, change, says):
    (tmp_path / "sweep.toml").write_text(GOOD.replace(*change))
    with pytest.raises(UsageError, match=says):
        load_sweep_file(str(tmp_path / "sweep.toml"))
