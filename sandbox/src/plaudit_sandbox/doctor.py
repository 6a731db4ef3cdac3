"""`plaudit doctor`: which sandboxes this machine can offer, and what each stops and does not stop."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict
from importlib.metadata import entry_points

from plaudit_sandbox.errors import SandboxError
from plaudit_sandbox.opening import GROUP, make_backend
from plaudit_sandbox.protocol import Isolation

HELP = "print the sandboxes of this machine: their tier, and what each stops and does not stop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("backend", nargs="*", help="back ends to look at (default: all that are installed)")
    parser.add_argument("--check", action="store_true", help="also run the self-check of each (about a minute)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """0 if every back end that was named, or `local`, works; 1 otherwise."""
    names = args.backend or sorted({point.name for point in entry_points(group=GROUP)}, key=lambda n: (n != "local", n))
    found = {name: _look(name) for name in names}
    if args.json:
        print(
            json.dumps({n: asdict(f) if isinstance(f, Isolation) else {"error": f} for n, f in found.items()}, indent=2)
        )
    else:
        print("\n\n".join(_text(name, result) for name, result in found.items()))
    needed = args.backend or ["local"]
    fine = all(isinstance(found.get(name), Isolation) for name in needed)
    if args.check:
        checked = [_check(name) for name, result in found.items() if isinstance(result, Isolation)]
        fine = fine and all(checked)
    return 0 if fine else 1


def _look(name: str) -> Isolation | str:
    async def ask() -> Isolation:
        backend = make_backend(name, {})
        try:
            return await backend.isolation()
        finally:
            await backend.close()

    try:
        return asyncio.run(ask())
    except SandboxError as error:
        return str(error)


def _text(name: str, found: Isolation | str) -> str:
    if isinstance(found, str):
        return f"{name}: not available\n  {found}"
    lines = [f"{name}: {found.tier}", "  stops"]
    lines += [f"    + {what}" for what in found.stops]
    lines += ["  does not stop", *(f"    - {what}" for what in found.does_not_stop)]
    return "\n".join(lines)


def _check(name: str) -> bool:
    from functools import partial

    from plaudit_sandbox.opening import open_sandbox
    from plaudit_sandbox.testing import check_sandbox

    report = asyncio.run(check_sandbox(partial(open_sandbox, name)))
    print(f"\n{name}: {report}")
    return report.ok
