"""`plaudit vllm`: how much memory vLLM should take beside a run, and its server. A subcommand is a module of run/."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

HELP = "start vLLM servers for a run, or estimate vLLM's share of the memory"
MODULES = {"estimate": "plaudit.run.vllm_estimate", "serve": "plaudit.run.vllm_serve"}
"""Subcommand to the module that has HELP, add_arguments(parser) and run(args) -> int."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A subparser for each subcommand."""
    parts = parser.add_subparsers(dest="part", required=True, metavar="|".join(MODULES))
    for name in MODULES:
        module = _module(name)
        module.add_arguments(parts.add_parser(name, help=module.HELP, description=module.HELP))


def run(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    return int(_module(args.part).run(args) or 0)


def _module(name: str) -> Any:
    return import_module(MODULES[name])
