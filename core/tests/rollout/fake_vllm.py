"""A stand-in for `vllm serve` on loopback: its endpoints, real weight transfer over gloo, and every way to go wrong."""

from __future__ import annotations

import asyncio
import base64
import io
import math
import threading
import time
from contextlib import suppress

import torch
from aiohttp import web
from PIL import Image
from plaudit.rollout.vllm.push import free_port
from plaudit.rollout.vllm.transfer import broadcast_gloo, join_gloo

RIGHT, WRONG = 5, 9
START, PART, END = 40, 41, 42


class FakeVLLM:
    """One server in a thread. A completion begins with RIGHT when it has taken weights since it started, else WRONG.

    The second token is the first weight times 1000, rounded, modulo 70. Settings may be changed at any time:
    `answer_s`, how long a completion takes, or a function of the prompt; `broken`, paths that answer (status, text);
    `raw_logprobs`; `top_logprobs` of each token. `calls`: (path, query, body) of everything but probes.
    """

    def __init__(self, port=None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.calls, self.bodies, self.broken = [], [], {}
        self.answer_s, self.raw_logprobs, self.cancelled, self.instances = 0.0, False, 0, 0
        self.received, self.top_logprobs = {}, None
        self.start()

    # Life

    def start(self):
        """Begin to listen, as a new instance without the run's weights."""
        self.version, self.paused, self.weights, self.group = "default", False, None, None
        self.instances += 1
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        self.thread = threading.Thread(target=self._main, args=(ready,), daemon=True)
        self.thread.start()
        assert ready.wait(20)

    def die(self):
        """Stop listening and drop all connections, as a killed process does."""
        if self.thread.is_alive():
            asyncio.run_coroutine_threadsafe(self.runner.cleanup(), self.loop).result(20)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(20)
        self.group = None

    def restart(self, after_s=0.0):
        """Die, and come back with the weights it was first started with."""
        self.die()
        time.sleep(after_s)
        self.start()

    def _main(self, ready):
        asyncio.set_event_loop(self.loop)

        async def listen():
            app = web.Application(client_max_size=2**30)
            app.router.add_route("*", "/{path:.*}", self._handle)
            self.runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
            await self.runner.setup()
            await web.TCPSite(self.runner, "127.0.0.1", self.port, reuse_address=True).start()
            ready.set()

        self.loop.run_until_complete(listen())
        self.loop.run_forever()

    # Endpoints

    async def _handle(self, request):
        path = request.path.strip("/")
        if path in self.broken:
            status, text = self.broken[path]
            return web.Response(status=status, text=text)
        body = await request.json() if request.can_read_body else None
        if request.method == "POST":
            self.calls.append((path, dict(request.query), body))
        handler = getattr(self, f"_{path.replace('/', '_')}", None)
        if handler is None:
            return web.Response(status=404, text="Not Found")
        return web.json_response(await handler(body) or {})

    async def _health(self, body):
        return {}

    async def _v1_models(self, body):
        return {"data": [{"id": "tiny", "max_model_len": 128}]}

    async def _get_world_size(self, body):
        return {"world_size": 1}

    async def _weight_info(self, body):
        return {"weight_version": self.version}

    async def _pause(self, body):
        self.paused = True

    async def _resume(self, body):
        self.paused = False

    async def _reset_prefix_cache(self, body):
        return {"success": True}

    async def _init_weight_transfer_engine(self, body):
        info = body["init_info"]
        self.group = await asyncio.to_thread(
            join_gloo, info["master_address"], info["master_port"], info["rank_offset"], info["world_size"]
        )

    async def _start_weight_update(self, body):
        assert self.paused
        self.received = {}

    async def _update_weights(self, body):
        info = body["update_info"]
        dtypes = [getattr(torch, name) for name in info["dtype_names"]]
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in zip(dtypes, info["shapes"], strict=True)]
        buffer = torch.empty(sum(sizes), dtype=torch.uint8)
        await asyncio.to_thread(broadcast_gloo, self.group[0], buffer)
        for name, dtype, shape, part in zip(info["names"], dtypes, info["shapes"], buffer.split(sizes), strict=True):
            self.received[name] = part.clone().view(dtype).view(shape)

    async def _finish_weight_update(self, body):
        self.weights, self.version = dict(self.received), body["weight_version"]

    async def _v1_completions(self, body):
        if body.get("allowed_token_ids"):
            return _completion([0], [-2.0 if self.raw_logprobs else 0.0])
        self.bodies.append(body)
        try:
            # A request that began with old weights is answered with them.
            first, second = (WRONG, 0) if self.weights is None else (RIGHT, self.first_weight)
            await asyncio.sleep(self.answer_s(body["prompt"]) if callable(self.answer_s) else self.answer_s)
            while self.paused:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        answer = _completion([first, second, 1], [-0.5, -0.25, -0.125])
        answer["choices"][0]["logprobs"]["top_logprobs"] = [self.top_logprobs] * 3
        return answer

    async def _v1_chat_completions_render(self, body):
        """What stands for a picture: a start, as many parts as it is pixels wide, an end."""
        url = body["messages"][0]["content"][0]["image_url"]["url"]
        width = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).width
        return {
            "token_ids": [2, START, *[PART] * width, END, 3],
            "features": {
                "mm_hashes": {"image": [f"picture{width}"]},
                "mm_placeholders": {"image": [{"offset": 1, "length": width + 2}]},
                "kwargs_data": {"image": [f"pixels{width}"]},
            },
        }

    async def _inference_v1_generate(self, body):
        answer = await self._v1_completions({**body["sampling_params"], "prompt": body["token_ids"], "asked": body})
        choice = answer["choices"][0]
        pairs = zip(choice["token_ids"], choice.pop("logprobs")["token_logprobs"], strict=True)
        found = [{"token_id": token, "logprob": value, "top_logprobs": []} for token, value in pairs]
        return {"choices": [{**choice, "logprobs": {"content": found}}]}

    @property
    def first_weight(self):
        """The second token of each completion."""
        return abs(round(next(iter(self.weights.values())).flatten()[0].item() * 1000)) % 70


def _completion(ids, logprobs):
    choice = {
        "index": 0,
        "text": "",
        "finish_reason": "stop",
        "token_ids": ids,
        "logprobs": {"token_logprobs": logprobs},
    }
    return {"choices": [choice]}


def close_all(servers):
    """End what is still there."""
    for server in servers:
        with suppress(Exception):
            server.die()
