"""`plaudit train` before anything heavy is imported."""

from __future__ import annotations

import pytest
from plaudit import cli


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("plaudit.cli.train.find_spec", lambda name: None if name in ("torch", "datasets") else object())
    assert cli.main(["train", "run.toml"]) == 2
    assert capsys.readouterr().err == "error: plaudit train needs torch, datasets: pip install 'plaudit[train]'\n"


def test_a_missing_run_file_is_told_at_once(capsys):
    assert cli.main(["train", "nowhere.toml"]) == 2
    assert capsys.readouterr().err == "error: no run file 'nowhere.toml'; expected a TOML file\n"


def test_a_run_file_is_needed(capsys):
    assert cli.main(["train"]) == 2
    assert "needs a run file" in capsys.readouterr().err


def test_help_config_prints_the_fields_asked_for(capsys):
    assert cli.main(["train", "--help-config", "epsilon"]) == 0
    printed = capsys.readouterr().out
    assert "epsilon = 0.2\n    " in printed
    assert "epsilon_high = None\n    " in printed
    assert "loss_type" not in printed
    assert cli.main(["train", "--help-config"]) == 0
    assert "\nloss_type = 'dapo'\n" in capsys.readouterr().out
    assert cli.main(["train", "--help-config", "epsilom"]) == 2


@pytest.mark.parametrize("arguments", [["--resume", "--overwrite", "run.toml"], ["run.toml", "--lucked"]])
def test_arguments_that_do_not_go_together(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", *arguments])
    assert ended.value.code == 2
    assert "usage: plaudit train" in capsys.readouterr().err
