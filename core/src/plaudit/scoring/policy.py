"""How one reward is run: as declared, as the run file overrides it, and by the right default when neither says."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plaudit.errors import UsageError
from plaudit.plugins.component import Component
from plaudit.plugins.declare import Executor, Granularity, OnError

if TYPE_CHECKING:
    from plaudit.scoring.spec import RewardSpec

DEFAULT_TIMEOUT_S = 300.0
DEFAULT_RETRIES = 2
DEFAULT_CONCURRENCY = 64
DEFAULT_MEMORY_MB = 1024
_GRANULARITIES = ("batch", "group", "rollout")
_EXECUTORS = ("loop", "thread", "process", "ray")
_ON_ERROR = ("abstain", "zero", "drop_group", "raise")
_log = logging.getLogger("plaudit.scoring")


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything the runtime needs to know about running one reward; no field is left to choose."""

    granularity: Granularity
    executor: Executor
    timeout_s: float | None
    retries: int
    backoff_s: float
    retry_on: tuple[type[BaseException], ...]
    on_error: OnError
    max_concurrency: int
    requests_per_s: float | None
    deterministic: bool
    cache: bool
    memory_mb: int
    breaker_failures: int
    breaker_cooldown_s: float


def resolve(spec: RewardSpec) -> Policy:
    """The policy of a spec. Raises UsageError on a value that is not one of the choices or out of range."""
    component, declared = spec.reward.component, spec.reward.component.declaration
    granularity = _choice(spec, "granularity", spec.granularity or declared.granularity or "batch", _GRANULARITIES)
    timeout_s = _first(spec.timeout_s, declared.timeout_s)
    policy = Policy(
        granularity=granularity,
        executor=choose_executor(spec, component, timeout_s),
        timeout_s=_timeout(spec, DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s),
        retries=_first(spec.retries, declared.retries, DEFAULT_RETRIES),
        backoff_s=spec.backoff_s,
        retry_on=tuple(declared.retry_on),
        on_error=_choice(spec, "on_error", spec.on_error or declared.on_error or "abstain", _ON_ERROR),
        max_concurrency=_first(spec.max_concurrency, declared.max_concurrency, DEFAULT_CONCURRENCY),
        requests_per_s=_first(spec.requests_per_s, declared.requests_per_s),
        deterministic=_first(spec.deterministic, declared.deterministic),
        cache=spec.cache,
        memory_mb=spec.memory_mb or DEFAULT_MEMORY_MB,
        breaker_failures=spec.breaker_failures or (20 if granularity == "rollout" else 5),
        breaker_cooldown_s=spec.breaker_cooldown_s,
    )
    _check(spec, policy)
    return policy


def choose_executor(spec: RewardSpec, component: Component, timeout_s: float | None) -> Executor:
    """Where a reward runs.

    A coroutine function runs on the loop. A synchronous verifier that another process can load again and that asks for
    a timeout runs in a process, because only a process can be stopped whatever it does. All else runs on a thread.
    A process that is asked for and not possible (a closure, an environment, no POSIX) becomes a thread, with a warning.
    """
    asked = spec.executor or component.declaration.executor
    if asked is not None:
        _choice(spec, "executor", asked, _EXECUTORS)
    if component.is_async:
        if asked not in (None, "loop"):
            raise UsageError(
                f"reward '{spec.name}' is a coroutine function: it runs on the loop, not on executor = '{asked}'"
            )
        return "loop"
    if asked == "loop":
        raise UsageError(
            f"reward '{spec.name}' is not a coroutine function and would block the loop: use executor = 'thread'"
        )
    if asked == "thread":
        return asked
    if asked is not None:
        obstacle = process_obstacle(component)
        if obstacle is None:
            return asked
        _log.warning(
            "reward '%s' runs on a thread, not in a %s: %s. A hung call cannot be killed", spec.name, asked, obstacle
        )
        return "thread"
    wants_process = component.kind == "verifier" and timeout_s is not None
    return "process" if wants_process and process_obstacle(component) is None else "thread"


def process_obstacle(component: Component) -> str | None:
    """Why another process cannot run a component; None when it can."""
    if os.name != "posix":
        return "process workers need a POSIX system"
    if component.reference is None:
        return "no other process can load it (a closure or a live object); name it as package.module:function"
    if "environments" in component.signature.names:
        return "it takes the live environments"
    return None


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _timeout(spec: RewardSpec, timeout_s: float) -> float | None:
    """None = no limit, written as inf or 0."""
    if timeout_s < 0 or timeout_s != timeout_s:
        raise UsageError(f"reward '{spec.name}': timeout_s = {timeout_s}; expected seconds, or 0 for no limit")
    return None if timeout_s in (0, float("inf")) else float(timeout_s)


def _choice(spec: RewardSpec, field: str, value: Any, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise UsageError(f"reward '{spec.name}': {field} = {value!r}; expected one of {', '.join(choices)}")
    return value


def _check(spec: RewardSpec, policy: Policy) -> None:
    if policy.retries < 0:
        raise UsageError(f"reward '{spec.name}': retries = {policy.retries}; expected 0 or more")
    if policy.max_concurrency < 1:
        raise UsageError(f"reward '{spec.name}': max_concurrency = {policy.max_concurrency}; expected at least 1")
    if policy.requests_per_s is not None and policy.requests_per_s <= 0:
        raise UsageError(f"reward '{spec.name}': requests_per_s = {policy.requests_per_s}; expected a rate above 0")
    if policy.cache and policy.granularity != "rollout":
        raise UsageError(
            f"reward '{spec.name}': cache needs granularity = 'rollout'; it sees a whole {policy.granularity}"
        )
    if policy.cache and not policy.deterministic:
        raise UsageError(f"reward '{spec.name}': cache needs a reward that is declared deterministic")
    if spec.clip is not None and not spec.clip[0] <= spec.clip[1]:
        raise UsageError(f"reward '{spec.name}': clip = {list(spec.clip)}; expected [low, high]")
