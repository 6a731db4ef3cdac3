"""Instances of environments: made once, reset for every rollout, closed at the end."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

from ...scoring.jobs import Job, JobPolicy, JobResult, Jobs
from .kinds import EnvironmentKind

CLOSE_S = 30.0
_log = logging.getLogger("plaudit.rollout")


@dataclass(slots=True, eq=False)
class _Instances:
    """All that are alive, by identity; those of them that no rollout holds; the closing of what was given up."""

    alive: dict[int, tuple[EnvironmentKind, Any]] = field(default_factory=dict)
    idle: dict[EnvironmentKind, list[Any]] = field(default_factory=dict)
    closing: list[threading.Event] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class EnvironmentPool:
    """Keeps instances over steps. Those that are alive are closed, whatever happens: by `close` or with the program."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._instances = _Instances()
        self._end = weakref.finalize(self, _end, os.getpid(), self._instances, jobs)

    def __len__(self) -> int:
        return len(self._instances.alive)

    def take(self, kind: EnvironmentKind) -> Any:
        """An instance that no rollout holds, or None: then one must be made, and told to `add`."""
        with self._instances.lock:
            idle = self._instances.idle.get(kind)
            return idle.pop() if idle else None

    def add(self, kind: EnvironmentKind, instance: Any, *, idle: bool = False) -> None:
        """Keep an instance that was just made; held by a rollout unless `idle`."""
        with self._instances.lock:
            self._instances.alive[id(instance)] = (kind, instance)
            if idle:
                self._instances.idle.setdefault(kind, []).append(instance)

    def give_back(self, instance: Any, *, broken: bool = False) -> None:
        """The rollout that held it is over. A `broken` one is closed: something may still be at work on it."""
        with self._instances.lock:
            kind, _ = self._instances.alive.get(id(instance), (None, None))
            if kind is None:
                return
            if not broken:
                self._instances.idle.setdefault(kind, []).append(instance)
                return
            del self._instances.alive[id(instance)]
        if kind.closes:
            job, done = _closing(kind, instance)
            self._instances.closing = [*(one for one in self._instances.closing if not one.is_set()), done]
            self._jobs.submit(job)

    def close(self) -> None:
        """Close every instance, all at once. The pool can be used again, and makes new ones."""
        _close(self._instances, self._jobs)


def _end(pid: int, instances: _Instances, jobs: Jobs) -> None:
    """At the end of the pool or the program; a forked child leaves what is its parent's."""
    if os.getpid() == pid:
        _close(instances, jobs)


def _close(instances: _Instances, jobs: Jobs) -> None:
    with instances.lock:
        to_close = [one for one in instances.alive.values() if one[0].closes]
        instances.alive.clear()
        instances.idle.clear()
        under_way, instances.closing = instances.closing, []
    if jobs.closed:
        for kind, instance in to_close:
            _close_here(kind, instance)
        return
    for kind, instance in to_close:
        job, done = _closing(kind, instance)
        under_way.append(done)
        jobs.submit(job)
    until = time.monotonic() + CLOSE_S
    for done in under_way:
        done.wait(max(until - time.monotonic(), 0.0))


def _closing(kind: EnvironmentKind, instance: Any) -> tuple[Job, threading.Event]:
    """The call of its close, and what is set when that has ended."""
    done = threading.Event()

    def closed(result: JobResult) -> None:
        done.set()
        if result.failure is not None:
            _log.warning("%s: close failed: %s", kind.label, result.failure.message)

    return Job(instance.close, {}, f"close of {kind.label}", JobPolicy(CLOSE_S), closed), done


def _close_here(kind: EnvironmentKind, instance: Any) -> None:
    """Without the scorer's loop and threads, which have ended."""
    try:
        returned = instance.close()
        if asyncio.iscoroutine(returned):
            asyncio.run(returned)
    except Exception as error:
        _log.warning("%s: close failed: %s: %s", kind.label, type(error).__name__, error)
