"""`plaudit plugins`: what is installed, what one component takes, and which of them are broken."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from plaudit.cli._table import print_table
from plaudit.errors import PluginError
from plaudit.plugins.registry import GROUPS, PluginInfo, clashes, list_plugins, unreadable_distributions

HELP = "list installed rewards, verifiers, environments …; describe or check them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit plugins`."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="describe this one: its options, columns and docstring (imports it)"
    )
    parser.add_argument("--check", action="store_true", help="import every component and list what is broken and why")
    parser.add_argument("--kind", choices=list(GROUPS.values()), help="only components of this kind")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--timeout-s",
        type=float,
        default=60.0,
        metavar="S",
        help="give an import this long (%(default)g)",
    )


def run(args: argparse.Namespace) -> int:
    """List, describe or check; returns 1 when something checked is broken."""
    kinds = [args.kind] if args.kind else None
    if args.name:
        plugins = _named(args.name, kinds)
        return _describe(plugins, args) if plugins else _describe_reference(args)
    plugins = list_plugins(kinds)
    if args.check:
        return _check(plugins, args)
    if args.json:
        print(json.dumps([_as_json(plugin) for plugin in plugins], indent=2))
    elif plugins:
        print_table(
            ("kind", "name", "distribution", "version"), [(p.kind, p.name, p.distribution, p.version) for p in plugins]
        )
    else:
        print("no plugins are installed; try: pip install plaudit-text plaudit-math")
    for name, distributions in clashes(plugins):
        choices = " or ".join(f"{distribution}:{name}" for distribution in distributions)
        print(f"'{name}' is offered by {' and '.join(distributions)}; name {choices}", file=sys.stderr)
    for name, error in unreadable_distributions():
        print(f"cannot be read: {name}: {error}", file=sys.stderr)
    return 0


def _named(text: str, kinds: list[str] | None) -> list[PluginInfo]:
    """Every component of that name, of any kind; empty for a file or module reference. Raises when there is none."""
    from plaudit.plugins.reference import Reference
    from plaudit.plugins.resolve import find, is_direct, unknown_message

    reference = Reference.parse(text)
    found = [find(reference, (kind,)) for kind in kinds or GROUPS.values()]
    plugins = [plugin for plugin in found if plugin is not None]
    if not plugins and not is_direct(reference):
        raise PluginError(unknown_message(reference, kinds or list(GROUPS.values())))
    return plugins


def _check(plugins: list[PluginInfo], args: argparse.Namespace) -> int:
    from plaudit.plugins.probe import probe_all

    answers = probe_all([(plugin.kind, plugin.reference) for plugin in plugins], timeout_s=args.timeout_s)
    results = [_as_json(p) | {"error": answer.get("error")} for p, answer in zip(plugins, answers, strict=True)]
    for name, error in unreadable_distributions():
        results.append({"kind": "?", "name": "?", "distribution": name, "version": "?", "value": "?", "error": error})
    broken = [result for result in results if result["error"]]
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        for result in broken:
            print(f"broken: {result['kind']} {result['name']} ({result['distribution']} {result['version']})")
            print(f"  {result['error']}")
        print(f"{len(results) - len(broken)} of {len(results)} components are sound")
    return 1 if broken else 0


def _describe(plugins: list[PluginInfo], args: argparse.Namespace) -> int:
    from plaudit.plugins.probe import probe_all

    answers = probe_all([(plugin.kind, plugin.reference) for plugin in plugins], timeout_s=args.timeout_s)
    results = [_as_json(plugin) | answer for plugin, answer in zip(plugins, answers, strict=True)]
    return _show(results, args.json)


def _describe_reference(args: argparse.Namespace) -> int:
    from plaudit.plugins.probe import probe

    kind = args.kind or "reward"
    answer = probe(kind, args.name, timeout_s=args.timeout_s)
    return _show([{"kind": kind, "name": args.name, "distribution": None, "version": None, **answer}], args.json)


def _show(results: list[dict[str, Any]], as_json: bool) -> int:
    if as_json:
        print(json.dumps(results, indent=2))
    else:
        for result in results:
            _print_one(result)
    return 1 if any(result.get("error") for result in results) else 0


def _print_one(result: dict[str, Any]) -> None:
    origin = f" ({result['distribution']} {result['version']})" if result["distribution"] else ""
    print(f"{result['kind']} {result['name']}{origin}")
    if result.get("error"):
        print(f"  broken: {result['error']}\n")
        return
    description = result["description"]
    if description["doc"]:
        print("\n" + "\n".join(f"  {line}".rstrip() for line in description["doc"].splitlines()))
    print()
    if "columns" in description:
        print(f"  columns: {_columns(description)}")
        declared = ", ".join(f"{name}={value}" for name, value in description["declared"].items())
        print(f"  declared: {declared or 'nothing'}{', async' if description['async'] else ''}")
    if "options" in description:
        print("  options:" if description["options"] else "  options: none")
        rows = [
            (o["name"], o["type"], "required" if o["required"] else repr(o["default"])) for o in description["options"]
        ]
        if rows:
            print_table(
                ("    name", "type", "default"), [(f"    {name}", kind, default) for name, kind, default in rows]
            )
    print()


def _columns(description: dict[str, Any]) -> str:
    named = [c["name"] if c["required"] else f"[{c['name']}]" for c in description["columns"]]
    return ", ".join([*named, "any"] if description["takes_any_column"] else named) or "none"


def _as_json(plugin: PluginInfo) -> dict[str, Any]:
    return {
        "kind": plugin.kind,
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "value": plugin.value,
    }
