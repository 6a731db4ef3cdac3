"""Sends the policy's weights to vLLM servers, live, over their own endpoints."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...errors import UsageError
from ..background import in_background
from .http import HttpLoop, VLLMServerError
from .transfer import Address, Group, open_group

if TYPE_CHECKING:
    from torch import Tensor

    from .servers import Server

CHUNK_BYTES = 256 * 2**20
_BUSY = "already active"

Pairs = Sequence[tuple[str, "Tensor"]]


class WeightPusher:
    """Keeps a group with each server, and opens it again when the server was started again.

    `weights` gives (name, tensor) pairs, names as in a checkpoint. `port`: where the first server meets the trainer,
    the next ones at the ports above; 0 = any free ones. `timeout_s`: for each call.
    """

    def __init__(
        self,
        http: HttpLoop,
        weights: Callable[[], Iterable[tuple[str, Tensor]]],
        *,
        backend: str,
        port: int,
        timeout_s: float,
    ) -> None:
        self._http = http
        self._weights = weights
        self._backend = backend
        self._port = port
        self._timeout_s = timeout_s
        self._groups: dict[Server, Group] = {}

    def push(self, servers: Sequence[Server], version: str) -> dict[Server, VLLMServerError]:
        """Give all weights to these servers, which then have `version`; returns those that failed, and why.

        Requests under way are held meanwhile and go on with the new weights. Call it while the policy stands still.
        """
        failed: dict[Server, VLLMServerError] = {}

        def each(work: Callable[[Server], None]) -> None:
            left = [server for server in servers if server not in failed]
            going = {server: in_background(partial(work, server), "plaudit-vllm-push") for server in left}
            for server, future in going.items():
                try:
                    future.result()
                except Exception as error:
                    failed[server] = _as_server_error(server, error)
                    self.forget(server)

        each(self._begin)
        for chunk in _chunks(self._weights()):
            each(partial(self._send, chunk))
            if len(failed) == len(servers):
                break
        each(lambda server: self._finish(server, version))
        return failed

    def forget(self, server: Server) -> None:
        """Leave the group with a server: it went away, or the transfer failed."""
        group = self._groups.pop(server, None)
        if group is not None:
            group.close()

    def close(self) -> None:
        """Leave all groups."""
        for server in list(self._groups):
            self.forget(server)

    def _begin(self, server: Server) -> None:
        if server not in self._groups:
            self._groups[server] = self._connect(server)
        self._post(server, "pause", query={"mode": "keep"})
        try:
            self._post(server, "start_weight_update")
        except VLLMServerError as error:
            if _BUSY not in str(error):
                raise
            # An update that broke off in the middle: end it, and begin again.
            self._post(server, "finish_weight_update")
            self._post(server, "start_weight_update")

    def _connect(self, server: Server) -> Group:
        address = Address(
            master_address(server.url),
            free_port() if self._port == 0 else self._port + server.index,
            1 + server.workers,
        )
        _check_port(address.port)
        where = {"master_address": address.host, "master_port": address.port}
        info = {"init_info": {**where, "rank_offset": 1, "world_size": address.size}}
        reply = self._start(server, "init_weight_transfer_engine", body=info)
        return _beside(reply, lambda: open_group(self._backend, address))

    def _send(self, chunk: Pairs, server: Server) -> None:
        info = {
            "names": [name for name, _ in chunk],
            "dtype_names": [str(tensor.dtype).removeprefix("torch.") for _, tensor in chunk],
            "shapes": [list(tensor.shape) for _, tensor in chunk],
        }
        reply = self._start(server, "update_weights", body={"update_info": info})
        _beside(reply, lambda: self._groups[server].send([tensor for _, tensor in chunk]))

    def _finish(self, server: Server, version: str) -> None:
        self._post(server, "finish_weight_update", body={"weight_version": version})
        # Requests that are held compute their prefixes again, with the new weights.
        done = self._post(server, "reset_prefix_cache", query={"reset_running_requests": "true"})
        if isinstance(done, dict) and done.get("success") is False:
            raise VLLMServerError(f"{server.url} could not drop its prefix cache; see the server's log")
        self._post(server, "resume")

    def _post(self, server: Server, path: str, **more: Any) -> Any:
        return self._start(server, path, **more).result()

    def _start(self, server: Server, path: str, **more: Any) -> Future[Any]:
        return self._http.start(self._http.call("POST", f"{server.url}/{path}", timeout_s=self._timeout_s, **more))


def _beside(reply: Future[Any], work: Callable[[], Any]) -> Any:
    """Do our half of something while the server does its own. Raises what the server says, without waiting for ours."""
    # A half whose other half failed may wait in vain: its own timeout ends it.
    ours = in_background(work, "plaudit-vllm-half")
    try:
        wait([reply, ours], return_when=FIRST_COMPLETED)
        if not reply.done():
            ours.result()
        reply.result()
        return ours.result()
    finally:
        reply.cancel()


def _chunks(pairs: Iterable[tuple[str, Tensor]]) -> Iterator[Pairs]:
    """The pairs in order, together as far as they are smaller than CHUNK_BYTES."""
    held: list[tuple[str, Tensor]] = []
    size = 0
    for name, tensor in pairs:
        more = tensor.numel() * tensor.element_size()
        if held and size + more > CHUNK_BYTES:
            yield held
            held, size = [], 0
        held.append((name, tensor))
        size += more
    if held:
        yield held


def master_address(url: str) -> str:
    """Where the server at `url` finds this process.

    MASTER_ADDR, unless that is a loopback address and the server is elsewhere; else the address of the interface that
    reaches the server.
    """
    host = urlsplit(url).hostname or "127.0.0.1"
    given = os.environ.get("MASTER_ADDR")
    if given and (not _is_loopback(given) or _is_loopback(host)):
        return given
    port = urlsplit(url).port or 80
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)  # sends nothing: it only picks the interface
            return str(probe.getsockname()[0])
    except OSError as error:
        raise VLLMServerError(f"{url} cannot be reached from here: {error}") from error


def free_port() -> int:
    """A port that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _check_port(port: int) -> None:
    if os.environ.get("MASTER_PORT") == str(port):
        raise UsageError(
            f"vllm_group_port: {port} is MASTER_PORT, where the ranks of the run meet; choose another vllm_group_port"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _as_server_error(server: Server, error: Exception) -> VLLMServerError:
    if isinstance(error, UsageError):
        raise error
    if isinstance(error, VLLMServerError):
        return error
    return VLLMServerError(f"{server.url} could not be given weights: {type(error).__name__}: {error}")
