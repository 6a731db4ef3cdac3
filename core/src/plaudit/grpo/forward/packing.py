"""Rollouts as one long row: hardly any padding, and a prompt that several completions share only once.

All of a transformer but its attention works token by token, so the segments of a micro-batch can lie one after another
in a batch of one row, and `packed_attention` keeps them apart. To wrappers it is one ordinary call of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from ..batch import MicroBatch, flat, runs
from .packed_attention import Block

# What one more block costs a layer, as much as this many tokens do: some ten operations.
BLOCK_COST = 32
# Packing has to save this share of the tokens, or the padded micro-batch is run.
LEAST_SAVING = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """`input_ids`, `position_ids`: (1, T). `positions`: as in MicroBatch, the places among the T that predict."""

    input_ids: Tensor
    position_ids: Tensor
    positions: Tensor
    blocks: tuple[Block, ...]


@dataclass(slots=True, eq=False)
class _Segment:
    """Consecutive tokens, the first at position `first`: a whole rollout, a shared prompt, or what follows that.

    `prompt`: the segment that it continues. `block` and `place`: where it was put.
    """

    ids: Sequence[int]
    prompt: _Segment | None = None
    block: Block | None = None
    place: int = 0

    @property
    def first(self) -> int:
        return 0 if self.prompt is None else len(self.prompt.ids)

    @property
    def start(self) -> int:
        assert self.block is not None
        return self.block.start + self.place * self.block.width


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """The tokens that predict a row's completion: `count` from the `offset`-th of `segment`."""

    segment: _Segment
    offset: int
    count: int


@dataclass(slots=True, eq=False)
class _Plan:
    """Segments by block, before they have places."""

    trunks: list[list[_Segment]]
    branches: list[list[_Segment]]
    runs: list[_Run]

    @property
    def tokens(self) -> int:
        return sum(len(part) * max(len(segment.ids) for segment in part) for part in (*self.trunks, *self.branches))

    @property
    def cost(self) -> int:
        return self.tokens + BLOCK_COST * (len(self.trunks) + len(self.branches))


def pack(batch: MicroBatch) -> Packed | None:
    """The micro-batch as one row, or None where that would save too little."""
    rows = _rows(batch)
    plan = min((_plan(rows, shared) for shared in (False, True)), key=lambda found: found.cost)
    if not plan.runs or plan.cost > (1 - LEAST_SAVING) * batch.input_ids.numel():
        return None
    return _laid_out(plan, batch.input_ids.device)


def packed_in_any_case(batch: MicroBatch, *, shared: bool) -> Packed:
    """The micro-batch as one row. `shared`: with each prompt once, else with each rollout whole."""
    return _laid_out(_plan(_rows(batch), shared), batch.input_ids.device)


def _rows(batch: MicroBatch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Prompt and completion (less its last token) of each row that has a completion."""
    width, grid = batch.input_ids.shape[1], batch.mask.shape[1]
    ids = batch.input_ids.tolist()
    owners = torch.div(batch.slots, grid, rounding_mode="floor")
    counts = torch.bincount(owners, minlength=len(ids)).tolist()
    positions = batch.positions.tolist()
    found, begin = [], 0
    for row, count in zip(ids, counts, strict=True):
        if count:
            prompt = positions[begin] % width + 1
            found.append((tuple(row[:prompt]), tuple(row[prompt : prompt + count - 1])))
        begin += count
    return found


def _plan(rows: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], shared: bool) -> _Plan:
    """Segments of rows, and their blocks. `shared`: prompts that occur more than once are segments of their own."""
    times: dict[tuple[int, ...], int] = {}
    for prompt, _ in rows:
        times[prompt] = times.get(prompt, 0) + 1
    trunks: list[_Segment] = []
    branches: list[_Segment] = []
    prompts: dict[tuple[int, ...], _Segment] = {}
    runs: list[_Run] = []
    for prompt, rest in rows:
        if not shared or times[prompt] == 1:
            trunks.append(_Segment((*prompt, *rest)))
            runs.append(_Run(trunks[-1], len(prompt) - 1, len(rest) + 1))
            continue
        if prompt not in prompts:
            prompts[prompt] = _Segment(prompt)
            trunks.append(prompts[prompt])
        runs.append(_Run(prompts[prompt], len(prompt) - 1, 1))
        if rest:
            branches.append(_Segment(rest, prompts[prompt]))
            runs.append(_Run(branches[-1], 0, len(rest)))
    parts = _split(trunks)
    parent = {id(segment): number for number, part in enumerate(parts) for segment in part}
    ordered = sorted(branches, key=lambda segment: parent[id(segment.prompt)])
    by_parent = groupby(ordered, key=lambda segment: parent[id(segment.prompt)])
    return _Plan(parts, [part for _, group in by_parent for part in _split(list(group))], runs)


def _split(segments: Sequence[_Segment]) -> list[list[_Segment]]:
    """Into blocks of similar length, so that padding and blocks together cost least."""
    if not segments:
        return []
    ordered = sorted(segments, key=lambda segment: len(segment.ids))
    ends = [end for end in range(1, len(ordered) + 1) if _changes(ordered, end)]
    best: dict[int, tuple[int, int]] = {0: (0, 0)}
    for end in ends:
        width = len(ordered[end - 1].ids)
        best[end] = min((cost + BLOCK_COST + (end - begin) * width, begin) for begin, (cost, _) in best.items())
    found, end = [], len(ordered)
    while end:
        found.append(ordered[best[end][1] : end])
        end = best[end][1]
    return found


def _changes(ordered: Sequence[_Segment], end: int) -> bool:
    return end == len(ordered) or len(ordered[end].ids) > len(ordered[end - 1].ids)


def _laid_out(plan: _Plan, device: torch.device) -> Packed:
    ids: list[int] = []
    places: list[int] = []
    blocks = []
    for part in (*plan.trunks, *plan.branches):
        blocks.append(_block(part, len(ids), device))
        for place, segment in enumerate(part):
            segment.block, segment.place = blocks[-1], place
            padding = blocks[-1].width - len(segment.ids)
            last = segment.first + len(segment.ids) - 1
            ids += [*segment.ids, *[0] * padding]
            places += [*range(segment.first, last + 1), *[last] * padding]
    starts, counts = [run.segment.start + run.offset for run in plan.runs], [run.count for run in plan.runs]
    input_ids, position_ids, positions = (
        found.to(device) for found in (flat([ids]), flat([places]), runs(starts, counts))
    )
    return Packed(input_ids[None], position_ids[None], positions, tuple(blocks))


def _block(part: Sequence[_Segment], start: int, device: torch.device) -> Block:
    width = max(len(segment.ids) for segment in part)
    prompts = [segment.prompt for segment in part if segment.prompt is not None]
    if not prompts:
        return Block(start, len(part), width)
    return Block(
        start,
        len(part),
        width,
        prompts[0].block,
        torch.tensor([prompt.place for prompt in prompts], device=device),
        torch.tensor([len(prompt.ids) for prompt in prompts], device=device),
    )
