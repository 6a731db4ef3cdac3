"""What is installed: every entry point of our groups, read from metadata alone. No plugin module is imported here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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

    `value` is `module:attribute`, or a module alone for commands and hooks.
    """

    kind: str
    name: str
    distribution: str
    version: str
    value: str

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
    found = [info for info in _installed() if info.kind in wanted]
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
    """(distribution or its folder, error) of those whose entry points cannot be read."""
    return [(name, error) for name, error, _ in _scan() if error]


def _installed() -> Iterator[PluginInfo]:
    seen: set[str] = set()
    for name, error, distribution in _scan():
        key = normalised(name)
        if error or key in seen:
            continue
        seen.add(key)
        version = distribution.version
        for entry in distribution.entry_points:
            if entry.group in GROUPS:
                yield PluginInfo(GROUPS[entry.group], entry.name, name, version, entry.value)


def _scan() -> Iterator[tuple[str, str, metadata.Distribution]]:
    """(name, error, distribution) of each distribution that speaks of plaudit in its entry points; error "" is none."""
    for distribution in metadata.distributions():
        try:
            if "plaudit" not in (distribution.read_text("entry_points.txt") or ""):
                continue
            name = distribution.metadata["Name"]
            if not name or not distribution.version:
                raise ValueError("its metadata has no name or no version")
            list(distribution.entry_points)
            yield name, "", distribution
        except Exception as error:
            yield str(getattr(distribution, "_path", "unknown")), f"{type(error).__name__}: {error}", distribution
