"""What a run says of its vLLM servers, and the generator that asks them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ...errors import UsageError
from ...rollout.protocol import Generator
from ..ranks import Ranks
from ..writing import Writer
from .overlap import Overlap


def generates_by_server(args: Any) -> bool:
    """Whether completions come from vLLM servers."""
    return bool(args.use_vllm and args.vllm_mode == "server")


def server_urls(args: Any) -> list[str]:
    """The base URLs of the servers. Raises UsageError on one that is none, or is there twice."""
    given = args.vllm_server_base_url
    if not given:
        return [f"http://{_reachable(args.vllm_server_host)}:{args.vllm_server_port}"]
    urls = [part.strip().rstrip("/") for part in (given.split(",") if isinstance(given, str) else given)]
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"vllm_server_base_url: {url!r} is no URL; expected one such as http://10.0.0.2:8000")
    twice = sorted({url for url in urls if urls.count(url) > 1})
    if twice:
        raise UsageError(f"vllm_server_base_url names {twice[0]} twice; name each server once")
    return urls


def build_server_generator(args: Any, model: Any, tokenizer: Any, ranks: Ranks) -> Generator:
    """The generator of a run with servers; waits until they are ready. `model`: the policy, unwrapped."""
    from ...rollout.vllm.server import ServerOptions, VLLMServerGenerator

    options = ServerOptions(
        timeout_s=args.vllm_server_timeout,
        request_timeout_s=args.vllm_request_timeout,
        group_port=args.vllm_group_port,
        backend="nccl" if args.device.type == "cuda" else "gloo",
        candidates=args.vllm_importance_sampling_correction,
    )
    return VLLMServerGenerator(model, tokenizer, server_urls(args), options, peers=ranks)


def build_overlap(args: Any, writer: Writer) -> Overlap | None:
    """What writes beside training, where the run allows stale completions.

    Raises UsageError when the rollouts are not written by a generator alone.
    """
    if not args.max_staleness:
        return None
    if writer.late_columns:
        raise UsageError(
            "max_staleness: rollout_func is given the trainer, whose weights move while it would write; set "
            "max_staleness=0"
        )
    cycle = args.steps_per_generation * args.num_iterations
    depth = args.max_staleness * args.gradient_accumulation_steps // cycle
    return Overlap(depth)


def _reachable(host: str) -> str:
    """An address to connect to, for one to listen on."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
