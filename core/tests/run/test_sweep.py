"""Sweeps: which trials are stopped, which values are tried, what is refused."""

from __future__ import annotations

import json

import pytest
from plaudit import UsageError
from plaudit.run.sweep.halving import Rungs
from plaudit.run.sweep.runner import Sweep
from plaudit.run.sweep.schema import Parameter, StopRule, SweepFile, load_sweep_file
from plaudit.run.sweep.search import Search, combinations
from plaudit.run.sweep.showing import table_rows

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


def test_a_trial_is_judged_once_at_a_rung():
    rungs = Rungs(StopRule(after=1, factor=2), maximize=True)
    rungs.stops(0, 1, 0.9)
    assert rungs.stops(1, 1, 0.1)
    assert not rungs.stops(1, 1, 0.1)


def test_proposals_lie_in_their_ranges_and_follow_from_the_seed(tmp_path):
    params = {"a": RATE, "b": Parameter(choices=(4, 8)), "c": Parameter(low=1, high=9)}
    found = []
    for _ in range(2):
        search = Search(sweep_of(tmp_path, params=params, seed=3))
        found.append([search.propose(trial) for trial in range(5)])
    assert found[0] == found[1]
    for values in found[0]:
        assert 1e-6 <= values["a"] <= 1e-3
        assert values["b"] in (4, 8)
        assert values["c"] in range(1, 10)


def test_a_grid_is_every_combination(tmp_path):
    params = {"a": Parameter(choices=(1, 2)), "b": Parameter(choices=("x", "y", "z"))}
    sweep = sweep_of(tmp_path, params=params, grid=True)
    assert len(combinations(sweep)) == 6
    search = Search(sweep)
    found = [search.propose(trial) for trial in range(6)]
    assert {(one["a"], one["b"]) for one in found} == {(a, b) for a in (1, 2) for b in "xyz"}


def test_a_clone_differs_in_one_value_within_its_range(tmp_path):
    params = {"a": RATE, "b": Parameter(choices=(4, 8)), "c": Parameter(low=1, high=9)}
    search = Search(sweep_of(tmp_path, params=params))
    before = {"a": 9e-4, "b": 4, "c": 9}
    for _ in range(20):
        after = search.changed(before)
        assert sum(after[name] != before[name] for name in before) <= 1
        assert after["a"] <= 1e-3
        assert after["c"] <= 9


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
        (("choices = [4, 8]", "choices = [4, 8]\n[stop]\nfactor = 1"), "factor of at least 2"),
    ],
)
def test_a_wrong_sweep_file_is_refused(tmp_path, change, says):
    (tmp_path / "sweep.toml").write_text(GOOD.replace(*change))
    with pytest.raises(UsageError, match=says):
        load_sweep_file(str(tmp_path / "sweep.toml"))


STUB = """
import json, pathlib, sys, time
settings = dict(one.split("=", 1) for one in sys.argv if "=" in one)
out = pathlib.Path(json.loads(settings["output_dir"]))
rate = float(settings["config.learning_rate"])
if rate > 0.9:
    sys.exit("rate too high")
with (out / "metrics.jsonl").open("a") as file:
    for step in range(1, 21):
        file.write(json.dumps({"step": step, "reward": rate * step}) + "\\\\n"); file.flush()
        time.sleep(float(settings.get("sleep", 0)))
(out / "model").mkdir()
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """In place of `plaudit train`: writes metrics that grow with the learning rate."""
    from plaudit.run.sweep import trials

    (tmp_path / "plaudit").mkdir()
    (tmp_path / "plaudit" / "__main__.py").write_text(STUB.replace("\\\\n", "\\n"))
    monkeypatch.chdir(tmp_path)
    real = trials.subprocess.Popen

    def started(command, **more):
        return real([command[0], str(tmp_path / "plaudit" / "__main__.py"), *command[3:]], **more)

    monkeypatch.setattr(trials.subprocess, "Popen", started)
    monkeypatch.setattr("plaudit.run.sweep.runner.POLL_S", 0.02)


def test_trials_run_side_by_side_and_the_best_is_cloned(stub, tmp_path):
    params = {"config.learning_rate": Parameter(choices=(0.1, 0.2, 0.3, 1.0))}
    file = sweep_of(tmp_path / "out", params=params, grid=True, parallel=2, clones=1)
    said = []
    sweep = Sweep(file, Search(file), said.append)
    trials = sweep.run()
    by_rate = {trial.params["config.learning_rate"]: trial for trial in trials[:4]}
    assert {rate: trial.status for rate, trial in by_rate.items()} == {
        0.1: "finished", 0.2: "finished", 0.3: "finished", 1.0: "failed",
    }  # fmt: skip
    assert trials[4].parent == by_rate[0.3].number
    assert trials[4].params["model.path"] == str(by_rate[0.3].folder.model)
    assert any("failed: rate too high" in line for line in said)
    saved = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert [line["status"] for line in saved] == [trial.status for trial in trials]
    rows = table_rows(file, trials)
    assert rows[-1][1] == "failed"
    assert float(rows[0][3]) >= float(rows[1][3])


def test_a_bad_trial_is_stopped(stub, tmp_path):
    params = {"config.learning_rate": Parameter(choices=(0.3, 0.1)), "sleep": Parameter(choices=(0.05,))}
    file = sweep_of(tmp_path / "out", params=params, grid=True, parallel=2, stop=StopRule(after=5, factor=2))
    trials = Sweep(file, Search(file), lambda text: None).run()
    assert {trial.params["config.learning_rate"]: trial.status for trial in trials}[0.3] == "finished"
    assert {trial.status for trial in trials} <= {"finished", "stopped"}


def test_a_sweep_in_which_all_fail_is_an_error(stub, tmp_path):
    from plaudit.errors import PlauditError

    params = {"config.learning_rate": Parameter(choices=(1.0, 2.0))}
    file = sweep_of(tmp_path / "out", params=params, grid=True)
    with pytest.raises(PlauditError, match="every trial failed; the first: rate too high"):
        Sweep(file, Search(file), lambda text: None).run()
