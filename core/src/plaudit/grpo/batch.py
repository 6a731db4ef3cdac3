"""From rollouts to the padded tensors of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..rollout.media import Media, model_inputs
from .records import LossInputs


@dataclass(frozen=True, slots=True, eq=False)
class Experience:
    """The tokens of one rollout. `learn`: per completion token, 1 where it counts in the loss.

    `logprobs`: the sampler's, in nats, one a completion token; None when nothing needs them. `candidates`: the ids that
    each token was drawn from, where log-probs are normalised over those. `media`: the prompt's images.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    learn: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None
    media: Media | None = None
    candidates: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """B rollouts as tensors. T is the number of their completion tokens, C the longest completion.

    `input_ids`: (B, L), prompt and completion less its last token, padded on the right, so that the longest rollout
    sets L and a causal model needs no mask. `positions`: (T,) places in the flattened (B * L) hidden states that
    predict each token; `targets`: (T,) the tokens; `slots`: (T,) their places in a flattened (B * C) grid. `mask`:
    (B, C), 1 where a token counts in the loss. `advantages`: (B,). `num_items`: tokens that count in the whole
    generation batch over all ranks, `share`: of its rows, how many are this rank's. `old_logprobs` of the policy that
    generated, `ref_logprobs` of the reference model and `sampled_logprobs` as the engine that sampled reported them:
    (B, C), in nats, or None. `media`: (B,) the images of each row, or nothing. `candidates`: (T, K) ids that log-probs
    are normalised over; None = all.
    """

    input_ids: Tensor
    attention_mask: Tensor | None
    positions: Tensor
    targets: Tensor
    slots: Tensor
    mask: Tensor
    advantages: Tensor
    num_items: float = 0.0
    share: float = 1.0
    old_logprobs: Tensor | None = None
    ref_logprobs: Tensor | None = None
    sampled_logprobs: Tensor | None = None
    candidates: Tensor | None = None
    media: tuple[Media | None, ...] = ()

    def seen(self, dtype: torch.dtype) -> dict[str, Any]:
        """The arguments of the model beside tokens and mask: images, in `dtype`."""
        width, device = self.input_ids.shape[1], self.input_ids.device
        return model_inputs(self.media, [0] * len(self.media), width, dtype=dtype, device=device)

    def loss_inputs(self, logp: Tensor, entropy: Tensor | None, ran: Tensor | None = None) -> LossInputs:
        """What the loss takes, with the policy's log-probs and entropies now, (B, C), of the rows that it ran on."""
        old, ref = self.old_logprobs, self.ref_logprobs
        return LossInputs(logp, self.mask, self.advantages, old, ref, entropy=entropy, ran=ran)

    def select(self, rows: Tensor) -> MicroBatch:
        """The micro-batch of these rows, (b,) indices in ascending order, padded as before."""
        (count, grid), width = self.mask.shape, self.input_ids.shape[1]
        place = torch.full((count,), -1, device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)
        new_row = place[self.slots // grid]
        kept = new_row >= 0
        new_row = new_row[kept]
        by_row = {
            item.name: getattr(self, item.name)[rows]
            for item in fields(self)
            if item.name not in _BY_TOKEN and isinstance(getattr(self, item.name), Tensor)
        }
        return replace(
            self,
            **by_row,
            media=tuple(self.media[row] for row in rows.tolist()) if self.media else (),
            positions=new_row * width + self.positions[kept] % width,
            targets=self.targets[kept],
            candidates=None if self.candidates is None else self.candidates[kept],
            slots=new_row * grid + self.slots[kept] % grid,
        )

    def idle(self) -> MicroBatch:
        """The same rows, run along with other ranks and counted nowhere."""
        return replace(self, mask=torch.zeros_like(self.mask), share=0.0)

    def state_dict(self) -> dict[str, Any]:
        """The fields by name, as a checkpoint keeps them."""
        media = tuple(None if one is None else (dict(one.inputs), dict(one.by_token)) for one in self.media)
        return {**{item.name: getattr(self, item.name) for item in fields(self)}, "media": media}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device | str = "cpu") -> MicroBatch:
        """A saved micro-batch, on `device`."""
        media = tuple(
            None if one is None else Media(*one).changed(lambda value: value.to(device))
            for one in state.get("media", ())
        )
        moved = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in state.items()}
        return cls(**{**moved, "media": media})


_BY_TOKEN = ("positions", "targets", "slots", "candidates")


def collate(
    rows: Sequence[Experience],
    *,
    pad_token_id: int,
    device: torch.device | str = "cpu",
    pad_to_multiple_of: int | None = None,
    attention_mask: bool = False,
    whole: bool = False,
) -> MicroBatch:
    """Pad rollouts to the longest of these rows (and to a multiple). `attention_mask`: give the model one as well.

    `whole`: the model sees last tokens too, and with a mask no completion of which nothing is learnt: what its router
    makes of each token counts (see `balancing`).
    """
    # Nothing is predicted from a last token, so the model need not see it.
    inputs = [(*row.prompt_ids, *(row.completion_ids if whole else row.completion_ids[:-1])) for row in rows]
    lengths = [len(ids) for ids in inputs]
    completions = [len(row.completion_ids) for row in rows]
    width, grid = (_rounded(max(n), pad_to_multiple_of) for n in (lengths, completions))
    input_ids = torch.full((len(rows) * width,), pad_token_id)
    input_ids[runs([index * width for index in range(len(rows))], lengths)] = flat(inputs)
    starts = [index * width + len(row.prompt_ids) - 1 for index, row in enumerate(rows)]
    slots = runs([index * grid for index in range(len(rows))], completions)
    tensors = MicroBatch(
        input_ids=input_ids.view(len(rows), width),
        attention_mask=_attention(rows, lengths, width, whole) if attention_mask else None,
        positions=runs(starts, completions),
        targets=flat(row.completion_ids for row in rows),
        slots=slots,
        mask=_grid([row.learn for row in rows], slots, grid),
        advantages=torch.zeros(len(rows)),
        sampled_logprobs=_sampled(rows, slots, grid),
        candidates=_candidates(rows),
        media=tuple(row.media for row in rows) if any(row.media is not None for row in rows) else (),
    )
    return tensors if torch.device(device).type == "cpu" else MicroBatch.from_state(tensors.state_dict(), device)


def _attention(rows: Sequence[Experience], lengths: Sequence[int], width: int, whole: bool) -> Tensor:
    """(B, L): 1 on the tokens that the model sees of each row."""
    seen = [
        len(row.prompt_ids) if whole and not any(row.learn) else length
        for row, length in zip(rows, lengths, strict=True)
    ]
    return (torch.arange(width)[None, :] < torch.tensor(seen)[:, None]).long()


def _sampled(rows: Sequence[Experience], slots: Tensor, width: int) -> Tensor | None:
    """(B, C) log-probs of the sampler, if every row has them."""
    found = [row.logprobs for row in rows if row.logprobs is not None]
    return _grid(found, slots, width) if len(found) == len(rows) else None


def _candidates(rows: Sequence[Experience]) -> Tensor | None:
    """(T, K) ids that the tokens were drawn from, if every row has them; a token itself fills up its row."""
    if any(row.candidates is None for row in rows):
        return None
    found = [(token, ids) for row in rows for token, ids in zip(row.completion_ids, row.candidates or (), strict=True)]
    width = max(len(ids) for _, ids in found)
    return torch.tensor([[*ids, *[token] * (width - len(ids))] for token, ids in found], dtype=torch.long)


def _rounded(length: int, multiple: int | None) -> int:
    return length if not multiple else -(-length // multiple) * multiple


def runs(starts: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """start, start + 1, … of each run, one after another: (sum of lengths,) int64."""
    first, count = torch.tensor(starts), torch.tensor(lengths)
    return torch.repeat_interleave(first - count.cumsum(0) + count, count) + torch.arange(sum(lengths))


def flat(rows: Iterable[Iterable[float]], dtype: type = np.int64) -> Tensor:
    """The numbers of all rows, one after another, of a NumPy type: much faster than a tensor made of lists."""
    return torch.from_numpy(np.fromiter(chain.from_iterable(rows), dtype))


def _grid(rows: Sequence[Sequence[float]], slots: Tensor, width: int) -> Tensor:
    """(B, C) float32 with the rows' numbers in their `slots`, and zeros at the ends."""
    grid = torch.zeros(len(rows) * width, dtype=torch.float32)
    return grid.index_copy_(0, slots, flat(rows, np.float32)).view(len(rows), width)
