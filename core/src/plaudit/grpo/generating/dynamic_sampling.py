"""Dynamic sampling (DAPO, arXiv 2503.14476): groups that teach nothing are replaced by fresh prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...scoring.table import ScoreTable
from ...types import Row
from ..collected import Collected
from ..collecting import Collector
from ..ranks import Ranks
from ..rows.prompts import as_row
from ..sampler import Rows

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class DynamicSampling:
    """Collects generation batches whose groups have differing rewards, as far as `max_rounds` of fresh prompts go.

    The groups in which no reward differs are thrown away, and fresh prompts take their places, on the ranks where
    these are. Prompts are those that follow in the order of the dataset. `starts`: how many prompts were taken before
    each generation batch that was begun, which is all that a checkpoint needs.
    """

    rows: Rows
    num_generations: int
    max_rounds: int
    starts: list[int] = field(default_factory=lambda: [0])

    def collect(self, collector: Collector, number: int, trainer_state: Any) -> Collected:
        """Generation batch `number`, written and scored. Every rank must call this."""
        first, count = self.starts[number], self.rows.prompts_per_batch
        taken, kept = first + count, self._round(collector, first, range(count), trainer_state)
        written, rounds = kept.num_tokens, 0
        while rounds < self.max_rounds and (idle := kept.advantages.group_zero_std.nonzero().flatten().tolist()):
            fresh = self._round(collector, taken, idle, trainer_state)
            kept = self._merged(collector, kept, fresh, self._places(collector.ranks, idle))
            taken, written, rounds = taken + len(idle), written + fresh.num_tokens, rounds + 1
        self.starts[number + 1 :] = [taken]
        numbers = {
            "dynamic_sampling/rounds": float(rounds),
            "dynamic_sampling/replaced_groups": float(taken - first - count),
            "dynamic_sampling/discarded_tokens": float(written - kept.num_tokens),
        }
        return replace(kept, numbers=numbers)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"starts": list(self.starts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.starts = list(state["starts"])

    def restart(self) -> None:
        """Begin at the first prompt again."""
        self.starts = [0]

    def _round(self, collector: Collector, first: int, groups: Sequence[int], trainer_state: Any) -> Collected:
        """Rollouts for the places of these groups, of the prompts from `first` on, one for each group."""
        prompt_of = {group: first + order for order, group in enumerate(groups)}
        start = self._start(collector.ranks)
        places = self._places(collector.ranks, groups)
        mine = [prompt_of[(start + place) // self.num_generations] for place in places]
        found = self._read(list(dict.fromkeys(mine)))
        return collector.collect(
            [found[prompt] for prompt in mine],
            num_generations=self.num_generations,
            mode="train",
            trainer_state=trainer_state,
        )

    def _read(self, prompts: Sequence[int]) -> dict[int, Row]:
        """Rows by their number in the order of the dataset, counted over epochs; `prompts` ascend."""
        size = self.rows.prompts_per_batch
        found: dict[int, Row] = {}
        for number in dict.fromkeys(prompt // size for prompt in prompts):
            own = [prompt for prompt in prompts if prompt // size == number]
            records = self.rows.records(number, [prompt % size for prompt in own])
            found |= dict(zip(own, map(as_row, records), strict=True))
        return found

    def _start(self, ranks: Ranks) -> int:
        """The place of this rank's first rollout among those of all ranks."""
        return ranks.index * (self.rows.prompts_per_batch * self.num_generations // ranks.size)

    def _places(self, ranks: Ranks, groups: Sequence[int]) -> list[int]:
        """This rank's places, counted among its own, whose group is one of these."""
        size, chosen = self.rows.prompts_per_batch * self.num_generations // ranks.size, set(groups)
        start = self._start(ranks)
        return [place for place in range(size) if (start + place) // self.num_generations in chosen]

    def _merged(self, collector: Collector, kept: Collected, fresh: Collected, places: Sequence[int]) -> Collected:
        """`kept` with this rank's fresh rollouts and their scores at `places`."""
        rollouts = [replace(new, index=place) for new, place in zip(fresh.rollouts, places, strict=True)]
        rank = collector.ranks.index
        table = merged_tables(kept.reports[rank].table, fresh.reports[rank].table, places)
        return collector.judged(_placed(kept.rollouts, rollouts, places), table, self.num_generations)


def merged_tables(kept: ScoreTable, fresh: ScoreTable, places: Sequence[int]) -> ScoreTable:
    """The table of `kept` with the rows of `fresh` at `places`.

    Logged metrics and what scoring cost are of all rollouts that were judged, also of those that were thrown away:
    counts are added, the longer of two times is kept.
    """
    dropped = (kept.dropped - set(places)) | {places[place] for place in fresh.dropped}
    sums = dict(kept.metric_sums)
    for name, (total, number) in fresh.metric_sums.items():
        before, count = sums.get(name, (0.0, 0))
        sums[name] = (before + total, count + number)
    return replace(
        kept,
        scores=_placed(kept.scores, fresh.scores, places),
        dropped=frozenset(dropped),
        columns=_placed_columns(kept.columns, fresh.columns, places, len(kept.scores)),
        logged=_placed_columns(kept.logged, fresh.logged, places, len(kept.scores)),
        metric_sums=sums,
        metrics={name: total / count for name, (total, count) in sums.items()},
        runtime=_joined(kept.runtime, fresh.runtime),
    )


def _placed(values: Sequence[T], new: Sequence[T], places: Sequence[int]) -> tuple[T, ...]:
    found = dict(zip(places, new, strict=True))
    return tuple(found.get(place, value) for place, value in enumerate(values))


def _placed_columns(
    kept: Mapping[Any, Sequence[Any]], fresh: Mapping[Any, Sequence[Any]], places: Sequence[int], count: int
) -> dict[Any, tuple[Any, ...]]:
    """Columns of both, each `count` long: what is new stands at its place, also where it is None."""
    return {
        name: _placed(kept.get(name, (None,) * count), fresh.get(name, (None,) * len(places)), places)
        for name in dict.fromkeys([*kept, *fresh])
    }


def _joined(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    joined = {**first, **second}
    for name in first.keys() & second.keys():
        pick = sum if name.endswith("_total") else max
        joined[name] = pick((first[name], second[name]))
    return joined
