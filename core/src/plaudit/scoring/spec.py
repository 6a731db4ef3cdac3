"""What is asked of one reward in a run: which, under what name, how much it weighs, where it applies, how it is run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.component import CallSignature, Component, Reward, reward_of
from plaudit.plugins.declare import Executor, Granularity, OnError, declare
from plaudit.scoring.schedules import Schedule, as_schedule
from plaudit.types import Rollout, completion_text


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """One reward of a run. None means "as its author declared it", or the default that policy.py chooses.

    `weight`: a number, a schedule (mapping or callable of the step). `when`: column values a row must have.
    `after`: a reward that must have passed first, `"name"` (above 0) or `{name: at_least}`. `clip`: [low, high] on the
    score; then `scale` multiplies it. `timeout_s` is for one call, 0 = no limit. `backoff_s`: wait before the first
    retry, doubled each time. `cache`: keep scores on disk. `applies`: a gate in code, on the whole rollout.
    `memory_mb`: of one process worker.
    """

    reward: Reward
    name: str
    weight: float | Mapping[str, Any] | Schedule = 1.0
    reference_column: str | None = None
    when: Mapping[str, Any] | None = None
    after: str | Mapping[str, float] | None = None
    clip: tuple[float, float] | None = None
    scale: float = 1.0
    granularity: Granularity | None = None
    executor: Executor | None = None
    timeout_s: float | None = None
    retries: int | None = None
    backoff_s: float = 0.5
    on_error: OnError | None = None
    max_concurrency: int | None = None
    requests_per_s: float | None = None
    deterministic: bool | None = None
    cache: bool = False
    memory_mb: int | None = None
    breaker_failures: int | None = None
    breaker_cooldown_s: float = 30.0
    applies: Callable[[Rollout], bool] | None = None

    def __post_init__(self) -> None:
        if self.reference_column is not None and self.reward.reference_column != self.reference_column:
            again = reward_of(self.reward.component, reference_column=self.reference_column)
            object.__setattr__(self, "reward", again)
        as_schedule(self.weight)


RewardLike = str | Callable[..., Any] | Reward | RewardSpec


def reward_specs(
    reward_funcs: RewardLike | Sequence[RewardLike], weights: Sequence[Any] | None = None
) -> list[RewardSpec]:
    """Specs of names, callables, Rewards and RewardSpecs in any mix; the caller's list is left as it is.

    `weights`: one each, over what the specs say. A name that comes twice becomes `name_2`, so that no metric and no
    column mixes two rewards. Raises UsageError on an empty list or a number of weights that differs.
    """
    given = (
        list(reward_funcs)
        if isinstance(reward_funcs, Sequence) and not isinstance(reward_funcs, str)
        else [reward_funcs]
    )
    if weights is not None and len(weights) != len(given):
        raise UsageError(f"{len(weights)} reward weights for {len(given)} rewards; give one each")
    specs = [_spec(one) for one in given]
    if weights is not None:
        specs = [replace(spec, weight=weight) for spec, weight in zip(specs, weights, strict=True)]
    return unique_names(specs)


def unique_names(specs: Sequence[RewardSpec]) -> list[RewardSpec]:
    """The specs with names that differ: the second `f` becomes `f_2`, the third `f_3`."""
    taken = {spec.name for spec in specs}
    seen: set[str] = set()
    unique = []
    for spec in specs:
        name, count = spec.name, 1
        while name in seen or (count > 1 and name in taken):
            count += 1
            name = f"{spec.name}_{count}"
        seen.add(name)
        unique.append(spec if name == spec.name else replace(spec, name=name))
    return unique


def environment_spec(environment: type, *, method: str = "get_reward", **more: Any) -> RewardSpec:
    """The reward that an environment class gives its own rollouts: weight 1, named after the class, one call a rollout.

    It abstains on rollouts of any other class (exact type). Sync `get_reward` runs on threads, async on the loop. One
    that takes `completion` is given the text of the model's last turn. A class with `score_group(environments,
    completions)` is asked once a group instead, for as many scores.
    """
    grouped = method == "get_reward" and callable(getattr(environment, "score_group", None))
    function = getattr(environment, "score_group" if grouped else method)
    is_async = _is_coroutine_function(function)
    reads = "completion" in inspect.signature(function).parameters

    def asked(completions: Any, environments: list[Any]) -> Any:
        if grouped:
            return function(environments=environments, completions=[completion_text(one) for one in completions])
        given = {"completion": completion_text(completions[0])} if reads else {}
        return getattr(environments[0], method)(**given)

    def several(told: Any) -> Any:
        return told if grouped else [told]

    async def ask_async(completions: Any, environments: list[Any]) -> Any:
        return several(await asked(completions, environments))

    def ask(completions: Any, environments: list[Any]) -> Any:
        return several(asked(completions, environments))

    names = frozenset({"completions", "environments"})
    component = Component(
        kind="reward",
        name=environment.__name__,
        target=ask_async if is_async else ask,
        declaration=declare("reward", granularity="group" if grouped else "rollout"),
        signature=CallSignature(names=names, required=names, takes_any=False),
        is_async=is_async,
    )
    spec = RewardSpec(
        reward_of(component), environment.__name__, applies=lambda rollout: type(rollout.environment) is environment
    )
    return replace(spec, **more)


def _spec(given: RewardLike) -> RewardSpec:
    if isinstance(given, RewardSpec):
        return given
    if not isinstance(given, Reward):
        from plaudit.plugins.loading import load_reward

        given = load_reward(given)
    return RewardSpec(given, given.__name__)


def _is_coroutine_function(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function)
