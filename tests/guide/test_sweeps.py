"""The sweep of the examples, made small, and that of the guide's page."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import tomli_w
from plaudit.cli import main
from plaudit.run.sweep.checking import check_run_file
from plaudit.run.sweep.schema import load_sweep_file

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "sweeps" / "quickstart.toml"
PAGE = (ROOT / "docs" / "guide" / "sweeps.md").read_text(encoding="utf-8")


def test_the_example_runs_when_it_is_made_small(tmp_path, monkeypatch, capsys):
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    table = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    table |= {"run": str(EXAMPLE.parent / table["run"]), "trials": 2, "stop": {"after": 1, "factor": 2}}
    fixed = {"config.max_steps": 2, "config.per_device_train_batch_size": 8, "data.eval_size": 8}
    table["params"] |= {name: {"choices": [value]} for name, value in fixed.items()}
    Path("sweep.toml").write_text(tomli_w.dumps(table))
    assert main(["sweep", "sweep.toml"]) == 0, capsys.readouterr().err
    printed, root = capsys.readouterr().out, tmp_path / table["output_dir"]
    trials = json.loads((root / "sweep.json").read_text())
    assert [one["parent"] is None for one in trials] == [True, True, False]
    assert {one["status"] for one in trials} <= {"finished", "stopped"}
    best = re.search(r"^best +(\S+)$", printed, re.MULTILINE)[1]
    assert (tmp_path / best / "model").is_dir()
    assert re.search(rf"^{best[-1]}.* finished +2 ", printed, re.MULTILINE)
    assert "max_steps" not in printed
    assert (root / "sweep.png").stat().st_size > 10_000
    assert main(["sweep", "sweep.toml", "--resume"]) == 0
    assert "resumed: 3 of 3 trials have ended" in capsys.readouterr().out


@pytest.mark.parametrize("text", [EXAMPLE.read_text(encoding="utf-8"), *re.findall(r"```toml\n(.*?)```", PAGE, re.S)])
def test_a_documented_sweep_is_right(text, tmp_path):
    (tmp_path / "sweep.toml").write_text(text.replace("../quickstart.toml", str(ROOT / "examples" / "quickstart.toml")))
    sweep = load_sweep_file(str(tmp_path / "sweep.toml"))
    check_run_file(sweep)
    assert sweep.stop is not None


def test_the_page_names_what_may_change():
    from plaudit.run.sweep.keeping import FREE

    (said,) = re.findall(r"^(.*) may differ from before", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", said) == list(FREE[:-1])
