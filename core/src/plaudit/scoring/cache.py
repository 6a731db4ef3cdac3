"""Scores on disk, opt-in: one SQLite file that several processes share, with a cap on its size."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plaudit.errors import PlauditError, UsageError
from plaudit.plugins.component import Reward
from plaudit.scoring.outcome import Outcome
from plaudit.types import Verdict

FILE_NAME = "scores.sqlite"
DEFAULT_MAX_MB = 1024
_SCHEMA = """CREATE TABLE IF NOT EXISTS scores (
  key TEXT PRIMARY KEY, reward TEXT NOT NULL, value TEXT NOT NULL, bytes INTEGER NOT NULL, used_at REAL NOT NULL)"""
_TRIM_EVERY = 256
_TOUCH_S = 3600.0
_log = logging.getLogger("plaudit.scoring")


def default_folder() -> Path:
    """`$PLAUDIT_CACHE`, else `plaudit` in the user's cache folder."""
    given = os.environ.get("PLAUDIT_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plaudit"


@dataclass(frozen=True, slots=True)
class Usage:
    """What one reward takes in the cache."""

    reward: str
    entries: int
    bytes: int


class ScoreCache:
    """Outcomes of single deterministic calls, by key. A broken or locked file never fails a run: it only misses.

    All access runs on one thread of its own, so neither generation nor a reward waits for the disk.
    """

    def __init__(self, folder: Path | None = None, *, max_mb: int = DEFAULT_MAX_MB) -> None:
        self.path = (folder or default_folder()) / FILE_NAME
        self._max_bytes = max_mb * 2**20
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._written = 0
        self._complained = False

    @staticmethod
    def key(identity: str, inputs: Any) -> str | None:
        """The key of inputs under an identity (plugin fingerprint, options); None where JSON cannot write them."""
        try:
            text = json.dumps(inputs, sort_keys=True, ensure_ascii=True, allow_nan=False)
        except (TypeError, ValueError):
            return None
        return hashlib.sha256(f"{identity}\n{text}".encode()).hexdigest()

    def look_up(self, key: str, then: Callable[[Outcome | None], None]) -> None:
        """Call `then` with the outcome under `key`, or None, on the cache's thread."""
        self._do(lambda: then(self._guarded(lambda: self._read(key))))

    def keep(self, key: str, reward: str, outcome: Outcome) -> None:
        """Store a call's outcome. Abstentions are not stored: what could not be judged today may be tomorrow."""
        value = outcome.values[0] if len(outcome.values) == 1 else None
        if (isinstance(value, Verdict) and value.score is not None) or isinstance(value, float):
            text = _written(outcome)
            if text is not None:
                self._do(lambda: self._guarded(lambda: self._write(key, reward, text)))

    def close(self) -> None:
        """Finish what is queued and end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(timeout=10)
            self._thread = None

    def _do(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="plaudit-cache", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _main(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _guarded(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except (sqlite3.Error, OSError) as error:
            if not self._complained:
                self._complained = True
                _log.warning("the score cache %s cannot be used (%s); scores are computed", self.path, error)
            return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self.path)
        return self._connection

    def _read(self, key: str) -> Outcome | None:
        database = self._open()
        row = database.execute("SELECT value, used_at FROM scores WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        if time.time() - row[1] > _TOUCH_S:
            database.execute("UPDATE scores SET used_at = ? WHERE key = ?", (time.time(), key))
        return _parsed(row[0])

    def _write(self, key: str, reward: str, text: str) -> None:
        row = (key, reward, text, len(text) + len(key), time.time())
        self._open().execute("INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?, ?)", row)
        self._written += 1
        if self._written % _TRIM_EVERY == 1:
            self._trim()

    def _trim(self) -> None:
        """Above the cap, forget a tenth more than needed, longest unused first."""
        database = self._open()
        (total,) = database.execute("SELECT COALESCE(SUM(bytes), 0) FROM scores").fetchone()
        excess = total - self._max_bytes
        if excess <= 0:
            return
        excess += self._max_bytes // 10
        database.execute(
            "DELETE FROM scores WHERE key IN (SELECT key FROM (SELECT key, SUM(bytes) OVER (ORDER BY used_at, key) "
            "- bytes AS before FROM scores) WHERE before < ?)",
            (excess,),
        )


def connect(path: Path) -> sqlite3.Connection:
    """The database at `path`, made when missing. Write-ahead logging lets several processes read and write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute(_SCHEMA)
    return database


def usage(path: Path) -> list[Usage]:
    """What is in the cache file, by reward; empty when there is no file."""
    if not path.exists():
        return []
    with closing(_existing(path)) as database:
        rows = database.execute(
            "SELECT reward, COUNT(*), SUM(bytes) FROM scores GROUP BY reward ORDER BY 3 DESC"
        ).fetchall()
    return [Usage(*row) for row in rows]


def clear(path: Path, reward: str | None = None) -> int:
    """Forget all scores, or those of one reward; returns how many."""
    if not path.exists():
        return 0
    with closing(_existing(path)) as database:
        where, values = ("", ()) if reward is None else (" WHERE reward = ?", (reward,))
        count = database.execute(f"DELETE FROM scores{where}", values).rowcount
        database.execute("VACUUM")
    return count


def _existing(path: Path) -> sqlite3.Connection:
    try:
        return connect(path)
    except sqlite3.DatabaseError as error:
        raise PlauditError(f"{path} is not a score cache ({error}); delete the file") from error


def _written(outcome: Outcome) -> str | None:
    value = outcome.values[0]
    record: dict[str, Any] = {"columns": outcome.columns, "metrics": outcome.metrics}
    if isinstance(value, Verdict):
        record["verdict"] = [value.score, value.reason, value.extracted, dict(value.metrics), dict(value.columns)]
    else:
        record["score"] = value
    try:
        return json.dumps(record, allow_nan=False)
    except (TypeError, ValueError):
        return None


def _parsed(text: str) -> Outcome | None:
    try:
        record = json.loads(text)
        value = Verdict(*record["verdict"]) if "verdict" in record else float(record["score"])
        return Outcome([value], record["columns"], [(name, number) for name, number in record["metrics"]])
    except (ValueError, KeyError, TypeError):
        return None


def identity_of(name: str, reward: Reward) -> str:
    """What a reward's scores depend on beside its inputs: its source, options and versions, and its reference column.

    Raises UsageError for a reward whose source cannot be hashed, such as a closure.
    """
    from plaudit.plugins.fingerprint import fingerprint

    found = fingerprint(reward.component)
    if found is None:
        raise UsageError(f"reward '{name}' cannot be cached: nothing tells when its code changes; give it a module")
    return f"{found}\n{reward.component.name}\n{reward.reference_column or ''}"
