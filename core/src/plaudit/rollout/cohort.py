"""Rows that began together and are decoded together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import isnan
from typing import TYPE_CHECKING

from ..errors import PlauditError
from .decoders import Decoder
from .protocol import Generated, Request
from .sampling import TokenChooser
from .stopping import StopRule

if TYPE_CHECKING:
    from torch import Tensor

COLUMNS = 64


class Cohort:
    """N rows over U distinct prompts, of which W are in the batch; those that finish leave it.

    Each distinct prompt is computed once and its KV cache shared out to its rows.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        places: Sequence[int],
        make_decoder: Callable[[int, int], Decoder],
        choose: TokenChooser,
        finish: StopRule,
        *,
        limit: int,
    ) -> None:
        """`places`: where the requests stand among all of the call. `make_decoder` takes the tokens of the longest row
        that may come, and those of the longest completion. `limit`: most tokens of a completion, unless a request asks
        for less.
        """
        self._limits = [request.limit(limit) for request in requests]
        self._soonest = min(self._limits)  # the first step at which a limit can end a row
        self._longest = max(len(request.prompt_ids) for request in requests) + max(self._limits)
        self._requests = requests
        self._call_places = places
        self._make_decoder = make_decoder
        self._decoder: Decoder | None = None
        self._choose = choose
        self._finish = finish
        self._steps = 0
        self._unfinished = len(requests)

    def __len__(self) -> int:
        """Rows that are not finished."""
        return self._unfinished

    @property
    def max_tokens(self) -> int:
        """Tokens that its cache may come to hold."""
        rows = len(self._requests) if self._decoder is None else self._decoder.width
        return rows * self._longest

    def advance(self) -> list[Generated]:
        """One forward of the model and one token a row. Returns the completions that end with it, in their order."""
        logits = self._begin() if self._decoder is None else self._decoder.step(self._written[self._steps - 1])
        tokens, logprobs = self._choose(logits, self._choosing)
        return self._record(tokens, logprobs)

    def _begin(self) -> Tensor:
        """Compute the prompts and set the batch up. Returns the first step's logits, (N, V)."""
        import torch

        count = len(self._requests)
        asked = [(request.prompt_ids, request.media) for request in self._requests]
        prompts = list(dict.fromkeys(asked))
        group_of = {prompt: number for number, prompt in enumerate(prompts)}
        self._decoder = self._make_decoder(self._longest, max(self._limits))
        logits = self._decoder.prefill([ids for ids, _ in prompts], [media for _, media in prompts])
        groups = torch.tensor([group_of[prompt] for prompt in asked], device=logits.device)
        self._decoder.select(groups)
        self._rows = torch.arange(count, device=logits.device)  # (W,): which request each row is
        self._live = torch.ones(count, dtype=torch.bool, device=logits.device)  # (W,)
        self._last = torch.tensor(
            self._limits, device=logits.device
        )  # (W,): the step that a row ends with at the latest
        self._written = self._rows.new_zeros(COLUMNS, count)  # (columns, W), a row each step
        self._logprobs = logits.new_zeros(COLUMNS, count, dtype=torch.float32)
        places = torch.tensor(self._call_places, device=logits.device)
        self._choosing = self._choose.begin(places, [request.prompt_ids for request in self._requests])
        return logits[groups]

    def _record(self, tokens: Tensor, logprobs: Tensor) -> list[Generated]:
        """Write the new tokens, (W,), down and drop the rows that they end. Returns what those wrote."""
        column, self._steps = self._steps, self._steps + 1
        if column == len(self._written):
            self._make_columns()
        self._written[column], self._logprobs[column] = tokens, logprobs
        ended = finished = self._finish(self._written[: self._steps])
        if self._steps >= self._soonest:
            finished = ended | (self._last <= self._steps)
        finished = finished & self._live
        slots = finished.nonzero().flatten()
        if not len(slots):
            return []
        self._unfinished -= len(slots)
        self._live = self._live & ~finished
        done = self._generated(slots, ended[slots].tolist())
        self._compact()
        return done

    def _generated(self, slots: Tensor, ended: Sequence[bool]) -> list[Generated]:
        tables = (self._written, self._logprobs)
        ids, logprobs = (table[: self._steps].index_select(1, slots).t().tolist() for table in tables)
        if any(map(isnan, chain.from_iterable(logprobs))):
            raise PlauditError(
                "the model gives no token a probability: its logits are not numbers (NaN or infinite), or every token "
                "is forbidden; if weights have diverged, go back to a checkpoint and lower learning_rate"
            )
        requests = [self._requests[row] for row in self._rows[slots].tolist()]
        return [
            Generated(request.index, tuple(row), tuple(marks), "stop" if stopped else "length")
            for request, row, marks, stopped in zip(requests, ids, logprobs, ended, strict=True)
        ]

    def _compact(self) -> None:
        """Drop the finished rows once they are an eighth of the batch: copying the cache for fewer costs more."""
        gone = len(self._live) - self._unfinished
        if not self._unfinished or gone * 8 < len(self._live):
            return
        slots = self._live.nonzero().flatten()
        assert self._decoder is not None
        self._decoder.select(slots)
        self._choosing.select(slots)
        self._rows, self._live, self._last = self._rows[slots], self._live[slots], self._last[slots]
        self._written, self._logprobs = (table.index_select(1, slots) for table in (self._written, self._logprobs))

    def _make_columns(self) -> None:
        import torch

        self._written, self._logprobs = (
            torch.cat([table, torch.zeros_like(table)]) for table in (self._written, self._logprobs)
        )
