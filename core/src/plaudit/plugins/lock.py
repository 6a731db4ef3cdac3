"""`plaudit.lock`: what a run was made of, and in words what has changed since."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.component import Component
from plaudit.plugins.declare import declaration_of
from plaudit.plugins.fingerprint import hash_of_source, installed_version, options_hash, source_hash
from plaudit.plugins.loading import REWARD_KINDS
from plaudit.plugins.reference import Reference
from plaudit.plugins.resolve import resolve

LIBRARIES = ("plaudit", "plaudit-sandbox", "torch", "transformers", "accelerate", "datasets", "peft", "vllm", "numpy")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class LockedComponent:
    """One component of a run. `files` and `options` are SHA-256; `files` is None for a live object."""

    name: str
    kind: str
    reference: str | None
    distribution: str | None
    version: str | None
    declared_version: str | None
    files: str | None
    options: str

    @property
    def label(self) -> str:
        """How messages call it; no two components of a run have the same."""
        return f"'{self.name}'" if self.kind in REWARD_KINDS else f"{self.kind} '{self.name}'"


@dataclass(frozen=True, slots=True)
class Lock:
    """Everything that fixes a run's scores: components by name, the seed, Python and the libraries' versions."""

    components: tuple[LockedComponent, ...]
    seed: int | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)
    python: str = ""

    @classmethod
    def of(
        cls, components: Iterable[Component], others: Iterable[LockedComponent] = (), *, seed: int | None = None
    ) -> Lock:
        """The lock of these components as they are installed now. `others`: what is no reward, locked already."""
        versions = {name: installed_version(name) for name in LIBRARIES}
        return cls(
            components=(*(_locked(component) for component in components), *others),
            seed=seed,
            libraries={name: version for name, version in versions.items() if version is not None},
            python=platform.python_version(),
        )

    def write(self, path: Path) -> None:
        """Write it as JSON, replacing the file in one step."""
        content = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=2, ensure_ascii=False)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(content + "\n", encoding="utf-8")
        partial.replace(path)

    @classmethod
    def read(cls, path: Path) -> Lock:
        """Raises UsageError when the file is missing or is no lock."""
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if data.pop("format") != FORMAT:
                raise ValueError("it was written by another version of Plaudit")
            components = tuple(LockedComponent(**entry) for entry in data.pop("components"))
            return cls(components=components, **data)
        except FileNotFoundError:
            raise UsageError(f"there is no lock at {path}; a run without --locked writes one") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path} is not a plaudit.lock: {error}") from None

    def drift_to(self, now: Lock) -> list[str]:
        """What differs in `now`, a sentence each; empty when nothing does."""
        before = {component.label: component for component in self.components}
        after = {component.label: component for component in now.components}
        lines = [f"{name} is new" for name in after if name not in before]
        lines += [f"{name} is gone" for name in before if name not in after]
        for name, old in before.items():
            if name in after:
                lines += _changes(old, after[name])
        if self.seed != now.seed:
            lines.append(f"seed: {self.seed} -> {now.seed}")
        if self.python != now.python:
            lines.append(f"Python: {self.python} -> {now.python}")
        for library in sorted(self.libraries.keys() | now.libraries.keys()):
            old_version, new_version = (lock.libraries.get(library, "not installed") for lock in (self, now))
            if old_version != new_version:
                lines.append(f"{library}: {old_version} -> {new_version}")
        return lines


def require_locked(path: Path, now: Lock) -> None:
    """Raise UsageError that lists every difference between the lock at `path` and `now`."""
    drift = Lock.read(path).drift_to(now)
    if drift:
        listed = "".join(f"\n  {line}" for line in drift)
        raise UsageError(f"--locked: this is not what {path} was made with:{listed}")


def locked_plugin(kind: str, text: str, options: Mapping[str, Any], name: str | None = None) -> LockedComponent:
    """An environment, dataset, model or tool as the reference `text` finds it now. Raises UsageError or PluginError.

    `name`: what the run calls it, by default the reference.
    """
    found, origin = resolve(text, (kind,))
    declared = declaration_of(found)
    return LockedComponent(
        name=name or _portable(text) or text,
        kind=kind,
        reference=_portable(origin.reference),
        distribution=origin.distribution,
        version=origin.version,
        declared_version=declared.version if declared is not None else None,
        files=hash_of_source(found, origin.reference) if origin.reference else None,
        options=options_hash(options),
    )


def _locked(component: Component) -> LockedComponent:
    return LockedComponent(
        name=component.name,
        kind=component.kind,
        reference=_portable(component.reference),
        distribution=component.distribution,
        version=component.version,
        declared_version=component.declaration.version,
        files=source_hash(component),
        options=options_hash(component.options),
    )


def _portable(reference: str | None) -> str | None:
    """A reference without the folder of a file, so that a moved project is no drift."""
    file = Reference.parse(reference) if reference else None
    return f"{Path(file.path).name}:{file.name}" if file and file.path else reference


def _changes(old: LockedComponent, new: LockedComponent) -> list[str]:
    lines = []
    if (old.kind, old.reference, old.distribution) != (new.kind, new.reference, new.distribution):
        lines.append(f"{old.label}: {_origin(old)} -> {_origin(new)}")
    if old.version != new.version:
        lines.append(f"{old.label}: version {old.version} -> {new.version}")
    elif old.files != new.files:
        lines.append(f"{old.label}: its files changed (version {old.version or 'unversioned'})")
    if old.declared_version != new.declared_version:
        lines.append(f"{old.label}: declared version {old.declared_version} -> {new.declared_version}")
    if old.options != new.options:
        lines.append(f"{old.label}: its options changed")
    return lines


def _origin(component: LockedComponent) -> str:
    return f"{component.kind} {component.reference or 'live object'} of {component.distribution or 'no distribution'}"
