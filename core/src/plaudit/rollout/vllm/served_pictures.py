"""Prompts with images for vLLM servers: a server prepares the pictures, then is asked with our tokens and what it made.

The endpoints are those of vLLM's --enable-scale-out, which `plaudit vllm serve` sets for vision-language models.
"""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ..protocol import Request
from .http import Refused, VLLMServerError
from .requests import choice_of

if TYPE_CHECKING:
    from .servers import ServerPool

RENDER = "v1/chat/completions/render"
GENERATE = "inference/v1/generate"
_OF_COMPLETIONS = ("prompt", "return_token_ids", "return_tokens_as_token_ids")


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a server made of one picture. `tokens`: what stands for it in a prompt; `data`: the model's input."""

    tokens: tuple[int, ...]
    name: str
    data: str


@dataclass(slots=True, eq=False)
class ServedPictures:
    """Asks servers for completions after prompts with pictures, each of which is prepared once.

    `image_token`: the id that stands for a part of an image. Its coroutines run on the pool's loop.
    """

    pool: ServerPool
    image_token: int | None
    _rendering: dict[int, tuple[Any, asyncio.Task[Rendered]]] = field(default_factory=dict)

    async def complete(self, request: Request, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The choice for a request with images, as `choice_of` gives it; `body` as for one without."""
        media = request.media
        assert media is not None
        pictures = await asyncio.to_thread(media.pictures)
        pairs = zip(media.sources, pictures, strict=True)
        rendered = [await self._rendered(source, picture) for source, picture in pairs]
        asked = {
            "token_ids": body["prompt"],
            "features": {
                # The weights decide what is computed of a picture, and servers keep that by name.
                "mm_hashes": {"image": [f"{one.name}-{self.pool.version}" for one in rendered]},
                "mm_placeholders": {"image": _places(request, rendered, self.image_token)},
                "kwargs_data": {"image": [one.data for one in rendered]},
            },
            "sampling_params": {name: value for name, value in body.items() if name not in _OF_COMPLETIONS},
        }
        return await self.pool.ask(GENERATE, asked, choice_of_tokens)

    async def _rendered(self, source: Any, picture: Any) -> Rendered:
        # The source is held as long as its number stands for it.
        if id(source) not in self._rendering:
            self._rendering[id(source)] = source, asyncio.ensure_future(self._render(picture))
        return await asyncio.shield(self._rendering[id(source)][1])

    async def _render(self, picture: Any) -> Rendered:
        part = {"type": "image_url", "image_url": {"url": await asyncio.to_thread(_data_url, picture)}}
        body = {"messages": [{"role": "user", "content": [part]}], "max_tokens": 1}
        try:
            return await self.pool.ask(RENDER, body, _as_rendered)
        except Refused as error:
            if error.status != 404:
                raise
            raise VLLMServerError(
                f"{error}. For prompts with images the server must be started with --enable-scale-out, as `plaudit "
                "vllm serve RUN.toml` does for vision-language models"
            ) from error


def image_token(model: Any) -> int | None:
    """The id that stands for a part of an image, under the names that models give it."""
    config = getattr(model, "config", None)
    return getattr(config, "image_token_id", None) or getattr(config, "image_token_index", None)


def choice_of_tokens(answer: Any) -> Mapping[str, Any]:
    """The choice in an answer of GENERATE, as the completions endpoint has it. Raises where it is none."""
    choice = choice_of(answer)
    found = (choice.get("logprobs") or {}).get("content") or []
    return {
        "token_ids": choice["token_ids"],
        "finish_reason": choice["finish_reason"],
        "logprobs": {
            "token_logprobs": [one["logprob"] for one in found],
            "top_logprobs": [
                {f"token_id:{likely['token_id']}": likely["logprob"] for likely in one["top_logprobs"]} for one in found
            ],
        },
    }


def _as_rendered(answer: Any) -> Rendered:
    features = answer["features"]
    (place,) = features["mm_placeholders"]["image"]
    (name,), (data,) = features["mm_hashes"]["image"], features["kwargs_data"]["image"]
    tokens = answer["token_ids"][place["offset"] : place["offset"] + place["length"]]
    return Rendered(tuple(tokens), str(name), data)


def _places(request: Request, rendered: Sequence[Rendered], image_token: int | None) -> list[dict[str, int]]:
    """Where each picture's parts are in the prompt. Raises UsageError where they are not, or not in one piece."""
    ids, start, found = request.prompt_ids, 0, []
    for number, one in enumerate(rendered, 1):
        length = len(one.tokens)
        ends = (end for end in range(start + length, len(ids) + 1) if ids[end - length : end] == one.tokens)
        end = next(ends, None)
        parts = [place for place, token in enumerate(one.tokens) if image_token in (None, token)]
        if end is None or not parts or parts[-1] - parts[0] + 1 != len(parts):
            why = "its tokens are not in the prompt" if end is None else "its tokens have others between them"
            raise UsageError(
                f"request {request.index}: image {number} is not where the vLLM server would have it ({why}); use "
                "vllm_mode='colocate' for this model, or leave use_vllm out"
            )
        found.append({"offset": end - length + parts[0], "length": len(parts)})
        start = end
    return found


def _data_url(picture: Any) -> str:
    written = io.BytesIO()
    picture.save(written, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
