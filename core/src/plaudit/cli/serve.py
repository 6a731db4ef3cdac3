"""`plaudit serve NAME…`: rewards and environments for trainers on other machines, by HTTP."""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
from typing import TYPE_CHECKING, Any

from plaudit.cli._quiet import quiet_runtime
from plaudit.errors import UsageError

if TYPE_CHECKING:
    from plaudit.scoring.spec import RewardSpec
    from plaudit.scoring.web import WebLimits

HELP = "serve rewards or an environment by HTTP, for trainers on other machines"
DEFAULT_PORT = 8077
PROTOCOLS = ("plaudit", "openrlhf", "nemo-gym", "ors", "openenv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit serve`."""
    parser.add_argument("rewards", nargs="+", metavar="NAME", help="math, package.module:name, ./file.py:name, …")
    parser.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default="plaudit",
        help="whose: of rewards our own, OpenRLHF's or NeMo-Gym's; of an environment ORS's or OpenEnv's (%(default)s)",
    )
    parser.add_argument("--data", metavar="FILE", help="the rows that an environment is reset with (ors, openenv)")
    parser.add_argument(
        "--abstain-score", type=float, metavar="X", help="what OpenRLHF is told where there is no score (else an error)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s: this machine only)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 = any free one (%(default)s)")
    parser.add_argument(
        "--options",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help='options of one reward: math={"tolerance": 0.1}',
    )
    parser.add_argument("--timeout-s", type=float, metavar="S", help="give up a call after this long, 0 = never")
    parser.add_argument("--max-mb", type=int, default=64, metavar="MB", help="the largest request (%(default)s)")
    parser.add_argument(
        "--max-rollouts", type=int, default=4096, metavar="N", help="the most rollouts in a request (%(default)s)"
    )
    parser.epilog = (
        "Trainers name a served reward as http://127.0.0.1:8077#NAME or https://host/#NAME. The bearer token is "
        "PLAUDIT_SERVE_TOKEN on both sides; an address that other machines reach is refused without one."
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        raise UsageError("plaudit serve needs aiohttp: pip install 'plaudit[serve]'") from None
    from plaudit.plugins.remote import TOKEN_VARIABLE
    from plaudit.scoring.web import WebLimits

    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is None and not is_loopback(args.host):
        raise UsageError(f"--host {args.host} lets other machines in: set {TOKEN_VARIABLE} to a secret first")
    limits = WebLimits(token, args.max_mb)
    with quiet_runtime():  # Each failure goes to the trainer that asked.
        if args.protocol == "openenv":
            return _serve_openenv(args)
        app, names = _environment_app(args, limits) if args.protocol == "ors" else _reward_app(args, limits)
        return _run(app, args, names)


def _reward_app(args: argparse.Namespace, limits: WebLimits) -> tuple[Any, str]:
    """The application that serves rewards, and what it serves."""
    from plaudit.bridges.reward_servers import nemo_gym_app, openrlhf_app
    from plaudit.scoring.server import RewardServer

    if args.data is not None:
        raise UsageError("--data is for environments (--protocol ors or openenv)")
    specs = _specs(args)
    if args.protocol == "openrlhf":
        return openrlhf_app(specs, limits, abstain_score=args.abstain_score), ", ".join(spec.name for spec in specs)
    if args.protocol == "nemo-gym":
        return nemo_gym_app(specs, limits), ", ".join(spec.name for spec in specs)
    server = RewardServer(specs, limits=limits, max_rollouts=args.max_rollouts)
    return server.app(), ", ".join(f"#{spec.name}" for spec in specs)


def _environment_app(args: argparse.Namespace, limits: WebLimits) -> tuple[Any, str]:
    from plaudit.bridges.ors_server import ORSServer
    from plaudit.bridges.sessions import EnvironmentSessions

    sessions = EnvironmentSessions(_environment(args))
    return ORSServer(sessions, _tasks(args)).app(limits), sessions.name


def _serve_openenv(args: argparse.Namespace) -> int:
    from plaudit.bridges.openenv_server import openenv_app

    app = openenv_app(_environment(args), _tasks(args))
    import uvicorn

    uvicorn.run(app, host=args.host, port=args.port, log_level="warning")
    return 0


def _environment(args: argparse.Namespace) -> Any:
    """The factory of the one environment that is named, with its options."""
    from plaudit.plugins.loading import load_environment

    if len(args.rewards) != 1:
        raise UsageError(f"--protocol {args.protocol} serves one environment; {len(args.rewards)} names were given")
    name = args.rewards[0]
    return load_environment(name, options=_options(args.options).get(name))


def _tasks(args: argparse.Namespace) -> list[dict[str, Any]]:
    if args.data is None:
        return [{}]
    from plaudit.run.files import read_rows

    return [dict(row) for row in read_rows(args.data)]


def _run(app: Any, args: argparse.Namespace, names: str) -> int:
    from aiohttp import web

    try:
        web.run_app(
            app, host=args.host, port=args.port, access_log=None, shutdown_timeout=5,
            print=lambda text: print(f"{text.splitlines()[0]}\nserving {names}", flush=True),
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"cannot listen on {args.host}:{args.port}: {error.strerror or error}") from error
    return 0


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _specs(args: argparse.Namespace) -> list[RewardSpec]:
    from plaudit.plugins.loading import load_reward
    from plaudit.scoring.spec import RewardSpec, unique_names

    options = _options(args.options)
    unknown = options.keys() - set(args.rewards)
    if unknown:
        raise UsageError(f"--options names '{min(unknown)}', which is not served; served: {', '.join(args.rewards)}")
    rewards = [load_reward(name, options=options.get(name)) for name in args.rewards]
    return unique_names([RewardSpec(reward, reward.__name__, timeout_s=args.timeout_s) for reward in rewards])


def _options(assignments: list[str]) -> dict[str, dict[str, Any]]:
    found = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("={")
        try:
            value = json.loads("{" + text) if equals else None
        except json.JSONDecodeError as error:
            raise UsageError(f"--options {assignment!r} is not JSON after the =: {error}") from None
        if not isinstance(value, dict):
            raise UsageError(f'--options {assignment!r}: expected NAME={{"option": value}}')
        found[name] = value
    return found
