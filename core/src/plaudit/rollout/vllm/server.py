"""Generates with vLLM servers: weights are sent to them live, completions asked of them over HTTP."""

from __future__ import annotations

import queue
import secrets
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...errors import UsageError
from ..policy_weights import moved_since, policy_weights
from ..protocol import Generated, Request, SamplingOptions
from .http import HttpLoop, Refused, VLLMServerError
from .peers import Alone, Peers
from .push import WeightPusher
from .requests import COMPLETIONS, choice_of, completion_bodies, generated
from .served_pictures import ServedPictures, image_token
from .servers import VERSION_PREFIX, ServerPool
from .transfer import backend_for

REPAIRS = 5
_TICK_S = 0.1


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How servers are talked to.

    `timeout_s`: for servers to come up, and for each call but completions, which have `request_timeout_s`.
    `group_port`: see WeightPusher. `backend`: nccl or gloo; None = by the policy's device. `candidates`: with top_k,
    say what each token was drawn from.
    """

    timeout_s: float = 240.0
    request_timeout_s: float = 1800.0
    group_port: int = 51216
    backend: str | None = None
    candidates: bool = False


class VLLMServerGenerator:
    """Completions from `vllm serve`, one request each, from the least loaded server.

    Each rank asks for its own; rank 0 sends the weights, in `refresh`. A server that dies or comes back with other
    weights loses nothing: what it owed is asked again. In `generate` the thread that called `refresh` last gives the
    weights to a server that is back; where another thread generates, that one calls `attend` now and then.
    """

    # Other code computes its log-probs, in another order.
    exact = False

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        urls: Sequence[str],
        options: ServerOptions | None = None,
        *,
        peers: Peers | None = None,
    ) -> None:
        """Wait until all servers are ready.

        `model`: the policy, unwrapped from DDP. Raises VLLMServerError when a server is not ready in time or cannot
        serve.
        """
        options = options or ServerOptions()
        times = {"timeout_s": options.timeout_s}
        self._model = model
        self._tokenizer = tokenizer
        self._peers = peers or Alone()
        self._candidates = options.candidates
        self._http = HttpLoop()
        self._pool = ServerPool(self._http, urls, **times, request_timeout_s=options.request_timeout_s)
        backend = options.backend or backend_for(model.device.type)
        weights = partial(policy_weights, model)
        self._pusher = WeightPusher(self._http, weights, backend=backend, port=options.group_port, **times)
        # A run that ends without closing leaves no connection open.
        self._end = weakref.finalize(self, _end, self._pusher, self._http)
        self._run = secrets.token_hex(4)
        self._pushes = 0
        self._step: int | None = None
        self._versions: tuple[int, ...] | None = None
        self._owner: int | None = None
        self._failed_repairs: dict[str, int] = {}
        try:
            self._pool.connect()
        except BaseException:
            self.close()
            raise

    def refresh(self, step: int) -> None:
        """Send the weights of after `step` to all servers that can be reached, unless they have them.

        Every rank must call it. Another thread than the one that called it last may call it for the same step: it
        has nothing to do then. Raises VLLMServerError when no server takes the weights.
        """
        here = threading.get_ident()
        if self._owner not in (None, here) and step == self._step:
            return
        self._owner = here
        moved, versions = moved_since(self._model, self._versions)
        if self._peers.index == 0:
            if moved or step != self._step:
                self._push_to_all()
            else:
                self.attend()
        self._step, self._versions = step, versions
        up = [server.index for server in self._pool.servers if server.state == "up"]
        version, up = self._peers.told((self._pool.version, up))
        if self._peers.index != 0 and version is not None:
            self._pool.expect(version, [self._pool.servers[index] for index in up])

    def generate(self, requests: Sequence[Request], sampling: SamplingOptions) -> Iterator[Generated]:
        """Yield completions as servers finish them. See Generator.

        Raises UsageError as `completion_bodies` does, or when a server calls a request wrong; VLLMServerError when no
        server can be used any more.
        """
        bodies = completion_bodies(
            requests,
            sampling,
            self._model,
            self._tokenizer,
            max_length=self._pool.max_length,
            candidates=self._candidates,
        )
        return self._collect(requests, bodies)

    @property
    def stale(self) -> list[int]:
        """The servers that this rank saw come back without the weights."""
        return [server.index for server in self._pool.stale]

    def attend(self, seen: Sequence[int] = ()) -> None:
        """Give the policy's weights as they are to servers that are back without them; other ranks have `seen` those.

        Only for the thread that owns the policy, while the policy stands still. Raises VLLMServerError when a server
        does not take them again and again.
        """
        stale = [one for one in self._pool.servers if one.state == "stale" or one.index in seen]
        version = self._pool.version
        if self._peers.index != 0:
            for server in stale if seen else ():  # the first rank has them now: look again
                self._pool.lose(server, "it has just been given weights")
            return
        if not stale or version is None:
            return
        for server in stale:
            self._pusher.forget(server)
        failed = self._pusher.push(stale, version)
        for server in stale:
            if server not in failed:
                self._failed_repairs.pop(server.url, None)
                server.state = "up"
                continue
            tries = self._failed_repairs[server.url] = self._failed_repairs.get(server.url, 0) + 1
            if tries == REPAIRS:
                raise VLLMServerError(f"{server.url} is back but took no weights in {tries} tries: {failed[server]}")
            self._pool.lose(server, str(failed[server]))

    def close(self) -> None:
        """Leave the servers. They stay up."""
        self._end()

    def _push_to_all(self) -> None:
        """Push until at least one server has the weights; the others are lost for now."""
        self._pushes += 1
        version = f"{VERSION_PREFIX}{self._run}-{self._pushes}"
        deadline = time.monotonic() + self._pool.timeout_s
        while True:
            reachable = [server for server in self._pool.servers if server.state != "lost"]
            failed = self._pusher.push(reachable, version) if reachable else {}
            for server, problem in failed.items():
                self._pool.lose(server, str(problem))
            taken = [server for server in reachable if server not in failed]
            if taken:
                break
            # Servers that were just seen to be ready and take no weights were started wrongly.
            if self._pushes == 1 or time.monotonic() > deadline:
                problems = "; ".join(server.problem for server in self._pool.servers)
                raise VLLMServerError(
                    f"no vLLM server took the policy's weights: {problems}. They must be started for this model with "
                    "a weight-transfer backend for its device, as `plaudit vllm serve RUN.toml` does"
                )
            time.sleep(_TICK_S)
        self._pool.expect(version, taken)

    def _collect(self, requests: Sequence[Request], bodies: Sequence[Mapping[str, Any]]) -> Iterator[Generated]:
        answers: queue.SimpleQueue[Generated | BaseException] = queue.SimpleQueue()

        pictures = ServedPictures(self._pool, image_token(self._model))

        async def one(request: Request, body: Mapping[str, Any]) -> None:
            seen = request.media is not None and request.media.sources
            try:
                choice = await (
                    pictures.complete(request, body) if seen else self._pool.ask(COMPLETIONS, body, choice_of)
                )
                answers.put(generated(request, choice))
            except Refused as error:
                answers.put(UsageError(f"the vLLM server refused a request: {error}"))
            except Exception as error:
                answers.put(error)

        jobs = [self._http.start(one(request, body)) for request, body in zip(requests, bodies, strict=True)]
        try:
            for _ in requests:
                yield self._next(answers)
        finally:
            for job in jobs:
                job.cancel()

    def _next(self, answers: queue.SimpleQueue[Generated | BaseException]) -> Generated:
        while True:
            if threading.get_ident() == self._owner:
                self.attend()
            try:
                found = answers.get(timeout=_TICK_S)
            except queue.Empty:
                continue
            if isinstance(found, BaseException):
                raise found
            return found


def _end(pusher: WeightPusher, http: HttpLoop) -> None:
    pusher.close()
    http.close()
