"""Sweeps with a stub in place of `plaudit train`: side by side, stopped, cloned, failed, interrupted, resumed."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from plaudit import UsageError
from plaudit.errors import PlauditError
from plaudit.run.folder import RunFolder
from plaudit.run.sweep.keeping import sweep_folder
from plaudit.run.sweep.runner import Sweep
from plaudit.run.sweep.schema import Parameter, StopRule, SweepFile
from plaudit.run.sweep.search import Search
from plaudit.run.sweep.showing import draw_sweep, table_rows
from plaudit.run.sweep.trials import Trial

RATE = Parameter(low=1e-6, high=1e-3, log=True)


def sweep_of(tmp_path, **more):
    return SweepFile(run="run.toml", output_dir=str(tmp_path), **{"params": {"config.learning_rate": RATE}, **more})


STUB = r"""
import json, pathlib, signal, sys, time
settings = dict(one.split("=", 1) for one in sys.argv if "=" in one)
out = pathlib.Path(json.loads(settings["output_dir"]))
with (out / "starts").open("a") as file:
    file.write("resume\n" if "--resume" in sys.argv else "overwrite\n")
rate, pause = float(settings["config.learning_rate"]), float(settings.get("sleep", 0))
if rate > 0.9:
    sys.exit("rate too high")
stop = []
signal.signal(signal.SIGINT, lambda *_: stop.append(1))
steps = [int(one.name.split("-")[1]) for one in out.glob("checkpoint-*")]
with (out / "metrics.jsonl").open("a") as file:
    for step in range(max(steps, default=0) + 1, 21):
        value = float("nan") if rate < 0 else rate * step
        file.write(json.dumps({"step": step, "reward": value}) + "\n"); file.flush()
        time.sleep(pause)
        # Where one is held up, it waits at its fifth step for Ctrl-C or for the file that lets all go on.
        while step == 5 and "held" in settings and out.name != "trial-0" and not (stop or (out / "../go").exists()):
            time.sleep(0.02)
        if stop:
            (out / f"checkpoint-{step}").mkdir()
            for name in ("trainer_state.json", "model.safetensors"):
                (out / f"checkpoint-{step}" / name).write_text("{}")
            sys.exit(130)
(out / "model").mkdir()
(out / "report.md").touch()
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """In place of `plaudit train`: writes metrics that grow with the learning rate."""
    (tmp_path / "plaudit").mkdir()
    (tmp_path / "plaudit" / "__main__.py").write_text(STUB)
    stub_again(monkeypatch, tmp_path)


def stub_again(monkeypatch, tmp_path):
    from plaudit.run.sweep import trials

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
    assert f"4 (of {by_rate[0.3].number})" in [row[0] for row in rows]
    assert float(rows[0][3]) >= float(rows[1][3])


def test_a_bad_trial_is_stopped(stub, tmp_path):
    params = {"config.learning_rate": Parameter(choices=(0.3, 0.1)), "sleep": Parameter(choices=(0.05,))}
    file = sweep_of(tmp_path / "out", params=params, grid=True, parallel=2, stop=StopRule(after=5, factor=2))
    trials = Sweep(file, Search(file), lambda text: None).run()
    assert {trial.params["config.learning_rate"]: trial.status for trial in trials}[0.3] == "finished"
    assert {trial.status for trial in trials} <= {"finished", "stopped"}


def test_what_does_not_vary_is_not_shown():
    params = {"a.rate": Parameter(low=0.1, high=0.5), "a.steps": Parameter(choices=(30,))}
    assert SweepFile("run.toml", "out", params).varied == ["a.rate"]
    assert SweepFile("run.toml", "out", {"a.steps": params["a.steps"]}).varied == ["a.steps"]
    trial = Trial(4, {"a.rate": 0.25, "a.steps": 30, "model.path": "x"}, RunFolder("out"), parent=1)
    assert (trial.name(), trial.describe(["a.rate"])) == ("4 (of 1)", "rate 0.25")


def test_a_sweep_in_which_all_fail_is_an_error(stub, tmp_path):
    params = {"config.learning_rate": Parameter(choices=(1.0, 2.0))}
    file = sweep_of(tmp_path / "out", params=params, grid=True)
    with pytest.raises(PlauditError, match="every trial failed; the first: rate too high"):
        Sweep(file, Search(file), lambda text: None).run()


class Interrupt(Exception):
    """Ends a sweep from within, as Ctrl-C or a kill would."""


def interrupted_sweep(file, monkeypatch, *, killed):
    """A sweep that ends once trial 0 has finished and trial 1 is at its fifth step; killed: it cannot say goodbye."""

    def said(text):
        if "trial 0 finished" in text:
            while len(sweep.trials[1].points("reward")) < 5:
                time.sleep(0.02)
            raise Interrupt

    sweep = Sweep(file, Search(file), said)
    if killed:
        monkeypatch.setattr("plaudit.run.sweep.trials.Trial.interrupt", lambda *_: None)
        monkeypatch.setattr("plaudit.run.sweep.trials.Trial.wait", lambda *_: None)
        save = Sweep.save
        monkeypatch.setattr(Sweep, "save", lambda self: None if self.trials[0].status == "finished" else save(self))
    with pytest.raises(Interrupt):
        sweep.run()
    monkeypatch.undo()
    return sweep


@pytest.mark.parametrize("killed", [False, True])
def test_a_resumed_sweep_repeats_nothing_and_goes_on_where_runs_were(stub, tmp_path, monkeypatch, killed):
    params = {"config.learning_rate": Parameter(low=0.1, high=0.5), "held": Parameter(choices=(1,))}
    file = sweep_of(tmp_path / "out", params=params, trials=4, parallel=2, clones=1, stop=StopRule(after=9, factor=9))
    before = interrupted_sweep(file, monkeypatch, killed=killed)
    left = [dict(trial.params) for trial in before.trials]
    monkeypatch.chdir(tmp_path)
    stub_again(monkeypatch, tmp_path)
    said = []
    sweep = Sweep(file, Search(file), said.append)
    sweep.restore()
    (tmp_path / "out" / "go").touch()
    trials = sweep.run()
    assert said[0].startswith("resumed: ")
    assert [trial.params for trial in trials[: len(left)]] == left
    assert [trial.status for trial in trials] == ["finished"] * 5
    assert trials[4].parent is not None
    assert len({trial.params["config.learning_rate"] for trial in trials}) == 5
    for trial in trials:
        steps = [step for step, _ in trial.points("reward")]
        assert steps == list(range(1, 21))
        starts = (trial.folder.root / "starts").read_text().split()
        assert starts in (["overwrite"], ["overwrite", "resume"])
    assert (trials[0].folder.root / "starts").read_text().split() == ["overwrite"]
    assert any("goes on" in line for line in said)
    told = [trial.value for trial in sweep.search._study.trials]
    assert told == [pytest.approx(trial.score("reward", 3)[1]) for trial in trials[:4]]


def test_more_trials_may_be_asked_of_a_sweep_that_has_clones(stub, tmp_path):
    params = {"config.learning_rate": Parameter(low=0.1, high=0.5)}
    file = sweep_of(tmp_path / "out", params=params, trials=1, clones=1)
    assert len(Sweep(file, Search(file), lambda text: None).run()) == 2
    more = replace(file, trials=3, clones=2)
    sweep = Sweep(more, Search(more), lambda text: None)
    sweep.restore()
    assert [trial.parent is None for trial in sweep.run()] == [True, False, True, True, False]
    assert all(trial.state.name == "COMPLETE" for trial in sweep.search._study.trials)


def test_what_a_trial_scored_at_its_rungs_is_kept(stub, tmp_path):
    params = {"config.learning_rate": Parameter(choices=(0.3, 0.2, 0.1)), "sleep": Parameter(choices=(0.02,))}
    file = sweep_of(tmp_path / "out", params=params, grid=True, stop=StopRule(after=5, factor=2))
    sweep = Sweep(file, Search(file), lambda text: None)
    sweep.run()
    again = Sweep(file, Search(file), lambda text: None)
    again.restore()
    assert again._rungs.judged == sweep._rungs.judged
    assert again._rungs.judged[0]
    assert [trial.status for trial in again.run()] == ["finished", "stopped", "stopped"]


def test_a_metric_that_is_no_number_neither_wins_nor_hides_the_best(stub, tmp_path):
    params = {"config.learning_rate": Parameter(choices=(-1.0, 0.2, 0.1))}
    file = sweep_of(tmp_path / "out", params=params, grid=True)
    sweep = Sweep(file, Search(file), lambda text: None)
    trials = sweep.run()
    assert sweep.best() is trials[1]
    assert [row[0] for row in table_rows(file, trials)] == ["1", "2", "0"]
    assert json.loads((tmp_path / "out" / "sweep.json").read_text())[0]["reward"] is None
    draw_sweep(file, trials, tmp_path / "sweep.png")


def test_a_metric_that_nothing_logs_ends_the_sweep(stub, tmp_path):
    params = {"config.learning_rate": Parameter(choices=(0.3, 0.2, 0.1))}
    file = sweep_of(tmp_path / "out", params=params, grid=True, metric="rewad")
    sweep = Sweep(file, Search(file), lambda text: None)
    with pytest.raises(PlauditError, match=r'metric = "rewad": trial 0 logged none; did you mean \'reward\'\?'):
        sweep.run()
    assert len(sweep.trials) == 1


def test_a_sweeps_folder_holds_one_sweep(tmp_path):
    (tmp_path / "run.toml").write_text("")
    file = replace(sweep_of(tmp_path / "out"), run=str(tmp_path / "run.toml"))

    def opened(changed=file, **how):
        with sweep_folder(changed, **{"resume": False, "overwrite": False, **how}) as root:
            (root / "sweep.json").write_text("[]")
            (root / "trial-0").mkdir(exist_ok=True)
            with pytest.raises(UsageError, match="another process runs this sweep"):
                opened(resume=True)

    with pytest.raises(UsageError, match="holds no sweep; leave --resume out"):
        opened(resume=True)
    opened()
    with pytest.raises(UsageError, match="holds a sweep already: --resume continues it, --overwrite replaces it"):
        opened()
    opened(replace(file, trials=3, parallel=2), resume=True)
    with pytest.raises(UsageError, match="--resume: params, metric changed since this sweep began"):
        opened(replace(file, params={"a": RATE}, metric="kl"), resume=True)
    (tmp_path / "run.toml").write_text("# other\n")
    with pytest.raises(UsageError, match="--resume: the run file changed"):
        opened(resume=True)
    opened(overwrite=True)
    (tmp_path / "out" / "sweep.json").write_text('[{"trial": 0}]')
    sweep = Sweep(file, Search(file), lambda text: None)
    with pytest.raises(UsageError, match="cannot be resumed from: KeyError"):
        sweep.restore()
