"""What is installed: every entry point of our groups, read from metadata alone. No plugin module is imported here."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

GROUPS = {
    "plaudit.rewards": "reward",
    "plaudit.verifiers": "verifier",
    "plaudit.environments": "environment",
    "plaudit.sandboxes": "sandbox",
    "plaudit.corpora": "corpus",
    "plaudit.datasets": "dataset",
    "plaudit.models": "model",
    "plaudit.commands": "command",
    "plaudit": "hooks",
}


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One entry point. `distribution` is the name as published; `value` says where the object lies.

    `value` is `module:attribute`, or a module alone for commands and hooks. A name that ends with `:*` is a family: a
    function that gives the component of each name in the star's place; `member` is that name once one was asked for.
    """

    kind: str
    name: str
    distribution: str
    version: str
    value: str
    member: str | None = None

    @property
    def reference(self) -> str:
        """The reference that means this one and no other."""
        return f"{self.distribution}:{self.name}"


def list_plugins(kinds: Iterable[str] | None = None) -> list[PluginInfo]:
    """Every installed component (or those of some kinds), sorted by kind in the order of `GROUPS`, name, distribution.

    Reads metadata only. A distribution whose metadata cannot be read is left out; `plaudit plugins --check` reports it.
    """
    wanted = set(GROUPS.values() if kinds is None else kinds)
    order = list(GROUPS.values())
    found = [info for info in _scan(_path_state())[0] if info.kind in wanted]
    return sorted(found, key=lambda info: (order.index(info.kind), info.name, info.distribution))


def clashes(plugins: Iterable[PluginInfo]) -> list[tuple[str, list[str]]]:
    """(name, distributions) of names that several distributions offer; rewards and verifiers share one name space."""
    offers: dict[tuple[str, str], set[str]] = {}
    for plugin in plugins:
        space = "reward" if plugin.kind == "verifier" else plugin.kind
        offers.setdefault((space, plugin.name), set()).add(plugin.distribution)
    return [(name, sorted(found)) for (_, name), found in offers.items() if len(found) > 1]


def normalised(distribution: str) -> str:
    """A distribution's name as names are compared (PEP 503). `packaging` has it too, and takes 15 ms to import."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def unreadable_distributions() -> list[tuple[str, str]]:
    """(its folder, error) of each distribution of ours whose entry points cannot be read."""
    return list(_scan(_path_state())[1])


def _path_state() -> tuple[tuple[str, int | None], ...]:
    """sys.path with the time each folder last changed: an installation adds or replaces a dist-info folder."""

    def changed(folder: str) -> int | None:
        try:
            return os.stat(folder or ".").st_mtime_ns
        except OSError:
            return None

    return tuple((folder, changed(folder)) for folder in sys.path)


@functools.lru_cache(maxsize=1)
def _scan(path_state: object) -> tuple[tuple[PluginInfo, ...], tuple[tuple[str, str], ...]]:
    """Every plugin, and the unreadable distributions. Of two distributions of one name the first on the path counts."""
    plugins: list[PluginInfo] = []
    unreadable: list[tuple[str, str]] = []
    seen: set[str] = set()
    for distribution in metadata.distributions():
        try:
            if "plaudit" not in (distribution.read_text("entry_points.txt") or ""):
                continue
            name, version = distribution.metadata["Name"], distribution.version
            if not name or not version:
                raise ValueError("its metadata has no name or no version")
            entries = [entry for entry in distribution.entry_points if entry.group in GROUPS]
        except Exception as error:
            unreadable.append((str(getattr(distribution, "_path", "unknown")), f"{type(error).__name__}: {error}"))
            continue
        if normalised(name) not in seen:
            seen.add(normalised(name))
            plugins += [PluginInfo(GROUPS[e.group], e.name, name, version, e.value) for e in entries]
    return tuple(plugins), tuple(unreadable)
