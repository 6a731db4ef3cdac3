"""How much is decoded at a time: requests wait for room in the key-value cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .protocol import Request

MEMORY_SHARE = 0.5


class WaitingList:
    """The places of N requests that wait for room, all at once if there is room for all.

    Otherwise long prompts come first and equal ones together: a cohort of prompts of similar length has little padding,
    and what takes longest begins first.
    """

    def __init__(self, requests: Sequence[Request], *, limit: int, max_cache_tokens: int) -> None:
        """`limit`: most tokens of a completion, unless a request asks for less.

        `max_cache_tokens`: tokens in the cache at a time.
        """
        self._room = max_cache_tokens
        self._prompts = [len(request.prompt_ids) for request in requests]
        self._limits = [request.limit(limit) for request in requests]
        self._waiting = list(range(len(requests)))
        if len(requests) * self._longest() > max_cache_tokens:
            first: dict[tuple[int, ...], int] = {}
            for place, request in enumerate(requests):
                first.setdefault(request.prompt_ids, place)
            self._waiting.sort(
                key=lambda place: (
                    -self._prompts[place] - self._limits[place],
                    -self._prompts[place],
                    first[requests[place].prompt_ids],
                )
            )

    def __len__(self) -> int:
        """Requests that have not begun."""
        return len(self._waiting)

    def admit(self, in_use: int) -> list[int]:
        """Places of the requests that begin now, when the cache may come to hold `in_use` tokens already.

        None while less than half the room is free, for many small cohorts take many forwards. At least one when
        nothing is in use, however long it is.
        """
        if not self._waiting or 2 * in_use > self._room:
            return []
        count = (self._room - in_use) // self._longest() or (in_use == 0)
        admitted, self._waiting = self._waiting[:count], self._waiting[count:]
        return admitted

    def _longest(self) -> int:
        """Tokens that a row may come to take: prompts are padded to the longest beside them."""
        prompt = max((self._prompts[place] for place in self._waiting), default=0)
        return prompt + max((self._limits[place] for place in self._waiting), default=0)


def cache_tokens_in_memory(model: Any) -> int:
    """Tokens whose keys and values fit into half of the memory that is free now."""
    import torch

    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token_bytes = 2 * config.num_hidden_layers * heads * size * model.dtype.itemsize
    if model.device.type == "cuda":
        free = torch.cuda.mem_get_info(model.device)[0]
        # What torch's allocator holds without using it is free as well.
        free += torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
    else:
        import psutil

        free = psutil.virtual_memory().available
    return max(1, int(free * MEMORY_SHARE) // token_bytes)
