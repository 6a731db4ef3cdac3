"""The command line's frame: help, version, unknown commands, plugins' commands, errors, and what is imported."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest
from plaudit import UsageError, __version__, cli
from plaudit.plugins.registry import PluginInfo


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("arguments", [["--help"], [], ["train", "--help"], ["plugins", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = f"""
import sys
from plaudit.cli import main
try:
    main({arguments!r})
except SystemExit as end:
    assert end.code == 0
heavy = {{"torch", "transformers", "datasets", "numpy", "pyarrow", "matplotlib", "rich", "sympy"}} & set(sys.modules)
assert not heavy, heavy
"""
    assert run_python(code)


def test_help_lists_every_command(capsys):
    assert cli.main(["--help"]) == 0
    assert "\n  train " in (text := capsys.readouterr().out)
    assert "\n  plugins " in text


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"plaudit {__version__}\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [("trian", "error: no command 'trian'; did you mean 'train'?\n"), ("xyz", "error: no command 'xyz'; commands: ")],
)
def test_unknown_command(capsys, name, message):
    assert cli.main([name]) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.fixture
def plugin_command(monkeypatch):
    """A command `greet` as a plugin would bring it; the fixture gives its module."""
    module = types.ModuleType("greeting")
    monkeypatch.setitem(sys.modules, "greeting", module)
    info = PluginInfo("command", "greet", "plaudit-greeting", "1.0", "greeting")
    monkeypatch.setattr("plaudit.plugins.resolve.list_plugins", lambda kinds=None: [info])
    monkeypatch.setattr("plaudit.plugins.registry.list_plugins", lambda kinds=None: [info])
    return module


def test_a_plugins_command_is_listed_from_metadata_and_called(plugin_command, capsys):
    assert cli.main(["--help"]) == 0
    assert "greet       from plaudit-greeting" in capsys.readouterr().out
    plugin_command.HELP = "say hello"
    plugin_command.add_arguments = lambda parser: parser.add_argument("name")
    plugin_command.run = lambda args: print(f"hello {args.name}") or 7
    assert cli.main(["greet", "you"]) == 7
    assert capsys.readouterr().out == "hello you\n"


def test_a_plugins_command_that_is_none_says_what_it_lacks(plugin_command, capsys):
    assert cli.main(["greet"]) == 2
    assert "command 'greet' (plaudit-greeting 1.0) lacks HELP, add_arguments, run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [(UsageError("bad thing"), 2, "error: bad thing\n"), (KeyboardInterrupt(), 130, "interrupted\n")],
)
def test_deliberate_errors_have_no_traceback(plugin_command, capsys, error, code, printed):
    def fail(args):
        raise error

    plugin_command.HELP, plugin_command.add_arguments, plugin_command.run = "x", lambda parser: None, fail
    assert cli.main(["greet"]) == code
    assert capsys.readouterr().err == printed


def test_an_unforeseen_error_keeps_its_traceback(plugin_command):
    plugin_command.HELP, plugin_command.add_arguments = "x", lambda parser: None
    plugin_command.run = lambda args: 1 / 0
    with pytest.raises(ZeroDivisionError):
        cli.main(["greet"])


def test_a_reader_that_leaves_the_pipe_is_no_error():
    command = f"{sys.executable} -c 'from plaudit.cli import main; [main([\"--help\"]) for _ in range(2000)]' | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("usage: plaudit")
