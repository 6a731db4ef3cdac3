"""The `plaudit` command: finds its subcommand, and turns deliberate errors into one message and exit code 2.

A subcommand is a module of this package, or an entry point of group `plaudit.commands`, that has `HELP: str`,
`add_arguments(parser)` and `run(args) -> int`. Only the one that is called is imported; `--help` imports none of the
plugins', and ours import nothing heavy.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from plaudit.errors import PlauditError, PluginError, UsageError

if TYPE_CHECKING:
    from plaudit.plugins.registry import PluginInfo

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code: 0 done, 2 a wrong input, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except PlauditError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has left (`plaudit plugins | head`); Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    if arguments[0] in ("-V", "--version"):
        from plaudit import __version__

        print(f"plaudit {__version__}")
        return 0
    name = arguments[0]
    command = _load(name)
    parser = argparse.ArgumentParser(prog=f"plaudit {name}", description=command.HELP)
    command.add_arguments(parser)
    return int(command.run(parser.parse_args(arguments[1:])) or 0)


def _load(name: str) -> Any:
    """The module of a subcommand. Raises UsageError naming the closest one when there is none."""
    if name in _own_names():
        return import_module(f"plaudit.cli.{name}")
    from plaudit.plugins.reference import Reference
    from plaudit.plugins.resolve import find

    plugin = find(Reference.parse(name), ("command",))
    if plugin is not None:
        return _load_plugin(plugin)
    import difflib

    from plaudit.plugins.registry import list_plugins

    known = [*_own_names(), *(info.name for info in list_plugins(["command"]))]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"commands: {', '.join(known)}"
    raise UsageError(f"no command '{name}'; {hint}")


def _load_plugin(plugin: PluginInfo) -> Any:
    """The module (`package.module`) or object (`package.module:object`) behind a plugin's command."""
    from plaudit.plugins.importing import import_attribute
    from plaudit.plugins.importing import import_module as import_reporting

    label = f"command '{plugin.name}' ({plugin.distribution} {plugin.version})"
    module, colon, attribute = plugin.value.partition(":")
    found = import_attribute(module, attribute, what=label) if colon else import_reporting(module, what=label)
    missing = [part for part in ("HELP", "add_arguments", "run") if not hasattr(found, part)]
    if missing:
        raise PluginError(
            f"{label} lacks {', '.join(missing)}; a command has HELP, add_arguments(parser) and run(args)"
        )
    return found


def _own_names() -> list[str]:
    return [found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_")]


def _help() -> str:
    from plaudit.plugins.registry import list_plugins

    lines = ["usage: plaudit COMMAND …", "", "Name a reward, train with it.", "", "commands:"]
    lines += [f"  {name:<12}{import_module(f'plaudit.cli.{name}').HELP}" for name in _own_names()]
    lines += [f"  {plugin.name:<12}from {plugin.distribution}" for plugin in list_plugins(["command"])]
    return "\n".join(
        [*lines, "", "`plaudit COMMAND --help` shows a command's options; `plaudit --version` the version."]
    )
