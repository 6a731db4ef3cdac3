"""`score_episode` as a reward: one call a rollout, all of them at one time over one batched policy."""

from __future__ import annotations

import asyncio
import copy
import inspect
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from plaudit.plugins.declare import reward
from plaudit.scoring.spec import RewardSpec
from plaudit.types import completion_text

from .policy import EpisodeBatcher, PolicyHandle

CONCURRENT_EPISODES = 256


class Episodes:
    """Scores rollouts with an environment's `score_episode`. `attach` it to the trainer before it is called."""

    def __init__(self, environment: Any, tokenizer: Any, columns: Sequence[str]) -> None:
        """`columns`: those of the dataset that score_episode takes, by name."""
        self._environment = environment
        self._tokenizer = for_threads(tokenizer)
        self._columns = tuple(columns)
        self._model: Any = None
        self.batcher: EpisodeBatcher | None = None

    def spec(self) -> RewardSpec:
        """The reward of a run."""
        from plaudit.plugins.loading import load_reward

        @reward(granularity="rollout", executor="thread", timeout_s=0, max_concurrency=CONCURRENT_EPISODES)
        def score_episode(
            prompts: Any, completions: Any, completion_ids: Any, trainer_state: Any, **columns: Any
        ) -> list[float | None]:
            step = getattr(trainer_state, "global_step", 0)
            return [self._score(prompts[0], completions[0], completion_ids[0], step, columns)]

        return RewardSpec(load_reward(score_episode), "score_episode")

    def attach(self, trainer: Any) -> None:
        """Give episodes the trainer's policy, and make the trainer's own uses of it wait for theirs."""
        source = trainer.source
        collector = source.collector
        self._model = trainer.accelerator.unwrap_model(trainer.model)
        self.batcher = EpisodeBatcher(collector.writer.generator)
        lock = self.batcher.policy_lock
        source.collector = replace(collector, writing=lambda: _alone_with(lock, collector.writing))
        source.annotate = _locked(source.annotate, lock)

    def _score(self, prompt: Any, completion: Any, ids: Sequence[int], step: int, columns: Any) -> float | None:
        import torch

        assert self.batcher is not None
        seed = zlib.crc32(repr((step, list(ids))).encode())
        handle = PolicyHandle(self._model, self.batcher, self._tokenizer.pad_token_id, seed)
        given = {name: prompt if name == "prompt" else columns[name][0] for name in self._columns}
        with self.batcher.episode(), torch.no_grad():
            found = self._environment.score_episode(
                model=handle,
                tokenizer=self._tokenizer,
                completion=completion_text(completion),
                **given,
            )
            if inspect.iscoroutine(found):
                found = asyncio.run(found)
        return None if found is None else float(found)


def for_threads(tokenizer: Any) -> Any:
    """A copy of the tokenizer that several threads may call at one time.

    Padding and truncation are a state of a fast tokenizer, which concurrent calls would change under each other.
    """
    made, kind, lock = copy.deepcopy(tokenizer), type(tokenizer), threading.Lock()
    if not hasattr(kind, "_encode_plus"):
        return made

    def _encode_plus(self: Any, *args: Any, **kwargs: Any) -> Any:
        with lock:
            return kind._encode_plus(self, *args, **kwargs)

    made.__class__ = type(kind.__name__, (kind,), {"_encode_plus": _encode_plus})
    return made


@contextmanager
def _alone_with(lock: Any, inner: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """The context `inner`, entered while the lock is held."""
    with lock, inner():
        yield


def _locked(function: Callable[..., Any], lock: Any) -> Callable[..., Any]:
    def alone(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return function(*args, **kwargs)

    return alone
