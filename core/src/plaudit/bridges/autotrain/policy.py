"""The policy as an episode sees it: `generate` as in transformers, batched over the episodes that wait at one time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plaudit.errors import UsageError
from plaudit.rollout.protocol import Generated, Generator, Request, SamplingOptions

if TYPE_CHECKING:
    from torch import Tensor

GATHER_S = 0.01
_DEFAULT_TOP_K = 50
_REFUSED = ("return_dict_in_generate", "output_scores", "output_logits", "streamer")
_NEUTRAL = {
    "num_beams": 1,
    "num_beam_groups": 1,
    "early_stopping": False,
    "synced_gpus": False,
    "logits_processor": None,
}
"""Options that change nothing with this value."""
_UNUSED = ("use_cache", "tokenizer", "token_type_ids", "bos_token_id", "transformers_version", "_from_model_config")


@dataclass(slots=True, eq=False)
class _Ask:
    """What one episode waits for."""

    prompts: list[tuple[int, ...]]
    sampling: SamplingOptions
    seed: int
    answer: list[Generated] | None = None
    error: BaseException | None = None


@dataclass(slots=True, eq=False)
class EpisodeBatcher:
    """Runs the generations of concurrent episodes together, as soon as all wait or `GATHER_S` after the first asked.

    `policy_lock`: held while the policy computes; whoever else uses it must hold it too.
    """

    generator: Generator
    policy_lock: Any = field(default_factory=threading.RLock)
    calls: int = 0
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _waiting: list[_Ask] = field(default_factory=list)
    _episodes: int = 0
    _leading: bool = False

    @contextmanager
    def episode(self) -> Iterator[None]:
        """An episode is under way: others wait a moment for what it may ask."""
        with self._turn:
            self._episodes += 1
        try:
            yield
        finally:
            with self._turn:
                self._episodes -= 1
                self._turn.notify_all()

    def generate(self, prompts: list[tuple[int, ...]], sampling: SamplingOptions, *, seed: int) -> list[Generated]:
        """A completion for each prompt, in order. Blocks; the first to ask runs the batch for all."""
        mine = _Ask(prompts, sampling, seed)
        with self._turn:
            self._waiting.append(mine)
            self._turn.notify_all()
        while not self._settled(mine):
            with self._turn:
                if self._leading:
                    self._turn.wait_for(lambda: self._settled(mine) or not self._leading)
                    continue
                self._leading = True
            try:
                with self.policy_lock:
                    self._run(self._gathered(mine))
            finally:
                with self._turn:
                    self._leading = False
                    self._turn.notify_all()
        if mine.error is not None:
            raise mine.error
        assert mine.answer is not None
        return mine.answer

    @staticmethod
    def _settled(ask: _Ask) -> bool:
        return ask.answer is not None or ask.error is not None

    def _gathered(self, mine: _Ask) -> list[_Ask]:
        """Those that wait with the same options, when all episodes wait or the time for that is over."""
        with self._turn:
            self._turn.wait_for(lambda: len(self._waiting) >= self._episodes, timeout=GATHER_S)
            batch = [ask for ask in self._waiting if ask.sampling == mine.sampling]
            self._waiting = [ask for ask in self._waiting if ask not in batch]
            return batch

    def _run(self, batch: list[_Ask]) -> None:
        places = [(ask, place) for ask in batch for place in range(len(ask.prompts))]
        requests = [
            Request(index, ask.prompts[place], seed=ask.seed + place) for index, (ask, place) in enumerate(places)
        ]
        try:
            self.calls += 1
            made = {one.index: one for one in self.generator.generate(requests, batch[0].sampling)}
        except BaseException as error:
            for ask in batch:
                ask.error = error
            return
        answers: dict[int, list[Generated]] = {id(ask): [] for ask in batch}
        for index, (ask, _) in enumerate(places):
            answers[id(ask)].append(made[index])
        for ask in batch:
            ask.answer = answers[id(ask)]


class PolicyHandle:
    """What `score_episode` gets as its model: `generate()` is batched with other episodes', the rest is the policy's.

    `seed`: of this episode; its generations draw from seed, seed + 1000, …
    """

    def __init__(self, model: Any, batcher: EpisodeBatcher, pad_token_id: int, seed: int) -> None:
        self._model = model
        self._batcher = batcher
        self._pad_token_id = pad_token_id
        self._seed = seed

    def generate(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **options: Any) -> Tensor:
        """As transformers' generate(): (B, P) prompt ids in, (B, P + C) out, padded on the right, without gradient.

        Options: max_new_tokens, max_length, do_sample, temperature, top_p, top_k, num_return_sequences, a
        generation_config, and what `generation_kwargs` takes. Raises UsageError on one that is not supported.
        """
        import torch

        ids = options.pop("inputs", None) if input_ids is None else input_ids
        if ids is None:
            raise UsageError("model.generate needs input_ids of shape (batch, tokens)")
        if ids.ndim != 2:
            raise UsageError(f"model.generate: input_ids have the shape {tuple(ids.shape)}; expected (batch, tokens)")
        mask = torch.ones_like(ids) if attention_mask is None else attention_mask
        if (given := options.pop("generation_config", None)) is not None:
            options = {**given.to_diff_dict(), **options}
        copies = options.pop("num_return_sequences", None) or 1
        ids, mask = ids.repeat_interleave(copies, 0), mask.repeat_interleave(copies, 0)
        prompts = [
            tuple(row[kept.bool()].tolist()) for row, kept in zip(ids.cpu(), mask.cpu().to(ids.dtype), strict=True)
        ]
        pad = options.pop("pad_token_id", None)
        sampling = self._sampling(options, ids.shape[1])
        self._seed += 1000
        made = self._batcher.generate(prompts, sampling, seed=self._seed)
        width = max(len(one.completion_ids) for one in made)
        filler = self._pad_token_id if pad is None else pad
        rows = [[*one.completion_ids, *[filler] * (width - len(one.completion_ids))] for one in made]
        return torch.cat([ids, torch.tensor(rows, dtype=ids.dtype, device=ids.device)], dim=1)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The policy's forward, without gradient."""
        import torch

        with self._batcher.policy_lock, torch.no_grad():
            return self._model(*args, **kwargs)

    def eval(self) -> PolicyHandle:
        """Nothing: generation is always in eval mode."""
        return self

    def train(self, mode: bool = True) -> PolicyHandle:
        """Nothing: an episode must not change the policy's mode."""
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def _sampling(self, options: dict[str, Any], prompt_tokens: int) -> SamplingOptions:
        config = getattr(self._model, "generation_config", None)
        chosen = {name: options.pop(name, None) for name in ("do_sample", "temperature", "top_p", "top_k")}
        found = {name: value if value is not None else getattr(config, name, None) for name, value in chosen.items()}
        limit, total = options.pop("max_new_tokens", None), options.pop("max_length", None)
        if limit is None:
            limit = total - prompt_tokens if total is not None else 20
        for name in _UNUSED:
            options.pop(name, None)
        for name, value in _NEUTRAL.items():
            if options.get(name, value) == value:
                options.pop(name, None)
        for name in _REFUSED:
            if options.pop(name, None):
                raise UsageError(f"model.generate({name}=…) is not supported in an episode; leave it out")
        if not found["do_sample"]:
            return SamplingOptions(max_new_tokens=limit, temperature=0.0, generation_kwargs=options)
        return SamplingOptions(
            max_new_tokens=limit,
            temperature=_or(found["temperature"], 1.0),
            top_p=_or(found["top_p"], 1.0),
            top_k=_or(found["top_k"], _DEFAULT_TOP_K),
            generation_kwargs=options,
        )


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
