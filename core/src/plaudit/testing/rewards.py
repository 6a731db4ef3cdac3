"""`check_reward`: whether a reward function keeps its contract."""

from __future__ import annotations

import asyncio
import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plaudit.plugins.component import Reward
from plaudit.plugins.loading import load_reward
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import RewardSpec
from plaudit.testing.conformance import Report, Skip, finished, run_checks, same_in_process, same_in_threads, unchanged
from plaudit.types import Rollout, Row

CANCELLATION_S = 5.0
SAMPLES = ("", "Four.", "<think>2 + 2</think><answer>4</answer>", "数字は４です。\u200b😀", "x" * 20_000)


def check_reward(
    reward: str | Callable[..., Any] | Reward,
    *,
    completions: Sequence[Any] = SAMPLES,
    columns: Mapping[str, Sequence[Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    expected: Sequence[float | None] | None = None,
    time_budget_s: float = 10.0,
) -> Report:
    """Check a reward by name, reference or object on some completions with their `columns` (one value each).

    Checks: a score for each completion, one and several; finite or None; the same twice (unless it declares otherwise),
    in threads, in another process, and as the runtime schedules it; a coroutine that is cancelled ends; arguments left
    alone; unknown columns accepted; the time budget; the `expected` scores. Raises AssertionError listing every check
    that failed.
    """
    loaded = reward if isinstance(reward, Reward) else load_reward(reward, options=dict(options or {}))
    texts = list(completions)
    arguments = _arguments(texts, columns or {})

    def call(selected: Mapping[str, Any] = arguments) -> list[float | None]:
        scores: list[float | None] = finished(loaded(**copy.deepcopy(dict(selected))))
        return scores

    first = _first(call)
    checks: dict[str, Callable[[], None]] = {
        "length": lambda: _lengths(call, arguments, first()),
        "finite or None": lambda: _finite(first()),
        "same twice": lambda: _same_twice(loaded, call, first()),
        "in threads": lambda: same_in_threads(call, first()),
        "in another process": lambda: _in_process(loaded, arguments, first()),
        "through the runtime": lambda: _through_runtime(loaded, arguments, first()),
        "cancellation": lambda: _cancellation(loaded, arguments),
        "arguments left alone": lambda: _mutation(loaded, arguments),
        "time budget": lambda: _in_time(call, time_budget_s),
        "expected scores": lambda: _expected(expected, first()),
    }
    return run_checks(checks, f"reward '{loaded.__name__}'")


def _arguments(texts: list[Any], columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    given = {
        "completions": texts,
        "prompts": ["What is 2 + 2?"] * len(texts),
        "completion_ids": [list(range(len(str(text)) % 50)) for text in texts],
        "trainer_state": None,
        "log_extra": _ignore,
        "log_metric": _ignore,
        "a_column_of_the_data": list(range(len(texts))),
    }
    return given | {name: list(values) for name, values in columns.items()}


def _ignore(*_: Any) -> None:
    """A logging function that keeps nothing; a module's function, so that it can be pickled."""


def _first(call: Callable[[], list[float | None]]) -> Callable[[], list[float | None]]:
    found: list[list[float | None]] = []

    def once() -> list[float | None]:
        if not found:
            found.append(call())
        return found[0]

    return once


def _lengths(call: Callable[..., list[Any]], arguments: Mapping[str, Any], scores: list[Any]) -> None:
    count = len(arguments["completions"])
    assert len(scores) == count, f"gave {len(scores)} scores for {count} completions"
    single = {name: value[:1] if isinstance(value, list) else value for name, value in arguments.items()}
    assert len(call(single)) == 1, "gave other than one score for one completion"


def _finite(scores: list[float | None]) -> None:
    bad = [score for score in scores if score is not None and not math.isfinite(score)]
    assert not bad, f"gave {bad[0]}; a score is finite, None abstains"


def _same_twice(loaded: Reward, call: Callable[[], list[Any]], scores: list[Any]) -> None:
    if loaded.component.declaration.kind == "reward" and not loaded.component.declaration.deterministic:
        raise Skip("it does not declare deterministic = True")
    again = call()
    assert again == scores, f"it declares deterministic but gave {scores} and then {again}"


def _in_process(loaded: Reward, arguments: Mapping[str, Any], scores: list[Any]) -> None:
    if loaded.component.reference is None:
        raise Skip("it is a live object; give its name or reference to check this")
    same_in_process(loaded, list(arguments.items()), scores)


def _through_runtime(loaded: Reward, arguments: Mapping[str, Any], scores: list[float | None]) -> None:
    """A run's scheduler, whether it awaits a coroutine, calls a thread or asks a process, gives what a call gives."""
    columns = {name: values for name, values in arguments.items() if isinstance(values, list)}
    texts, prompts, ids = (columns.pop(name) for name in ("completions", "prompts", "completion_ids"))
    rollouts = [
        Rollout(i, Row(prompts[i], {name: values[i] for name, values in columns.items()}), text, tuple(ids[i]))
        for i, text in enumerate(texts)
    ]
    with (
        Scorer([RewardSpec(loaded, "checked")], max_unscored_share=None, processes=1) as scorer,
        scorer.open([rollout.row for rollout in rollouts], num_generations=len(rollouts), mode="eval") as session,
    ):
        for rollout in rollouts:
            session.submit(rollout)
        table = session.result()
    assert not table.failures, f"the runtime could not score with it: {table.failures[0]}"
    given = [row[0] for row in table.scores]
    assert given == scores, f"the runtime gives {given}, a call gives {scores}"


def _cancellation(loaded: Reward, arguments: Mapping[str, Any]) -> None:
    if not loaded.component.is_async:
        raise Skip("it is no coroutine function; a timeout stops its thread's result or its process")

    async def cancelled() -> bool:
        coroutine: Any = loaded(**copy.deepcopy(dict(arguments)))
        task = asyncio.ensure_future(coroutine)
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=CANCELLATION_S)
        return bool(done)

    assert asyncio.run(cancelled()), f"it went on for {CANCELLATION_S:g} s after it was cancelled"


def _mutation(loaded: Reward, arguments: Mapping[str, Any]) -> None:
    given = copy.deepcopy(dict(arguments))
    finished(loaded(**given))
    unchanged(
        {k: v for k, v in arguments.items() if isinstance(v, list)},
        {k: v for k, v in given.items() if isinstance(v, list)},
    )


def _in_time(call: Callable[[], Any], budget_s: float) -> None:
    started = time.perf_counter()
    call()
    took = time.perf_counter() - started
    assert took <= budget_s, f"took {took:.1f} s, the budget is {budget_s:g} s"


def _expected(expected: Sequence[float | None] | None, scores: list[float | None]) -> None:
    if expected is None:
        raise Skip("no expected scores were given")
    wrong = [
        (i, want, got) for i, (want, got) in enumerate(zip(expected, scores, strict=True)) if not _close(want, got)
    ]
    assert not wrong, "; ".join(f"completion {i} scored {got}, expected {want}" for i, want, got in wrong)


def _close(want: float | None, got: float | None) -> bool:
    return want is got if want is None or got is None else math.isclose(want, got, abs_tol=1e-9)
