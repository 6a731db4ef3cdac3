"""What a component is made of, as hashes: for the lock of a run and the key of the cache."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import json
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from plaudit.plugins.component import Component
from plaudit.plugins.reference import Reference

_SKIPPED = {"__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache"}


def source_hash(component: Component) -> str | None:
    """SHA-256 over the component's source: its top-level package, or its file when it was loaded from one.

    The same for an editable install and for the wheel built from it. None for a served reward, and for a closure or
    other live object: no source fixes what it does.
    """
    return None if component.reference is None else hash_of_source(component.target, component.reference)


def hash_of_source(target: Any, text: str) -> str | None:
    """The same, of the object that the reference `text` leads to."""
    reference = Reference.parse(text)
    if reference.url is not None:
        return None
    if reference.path is not None:
        path = Path(reference.path)
        return hash_files(path.parent, [path])
    module = getattr(inspect.getmodule(_definition(target)), "__name__", None)
    return package_hash(module) if module else None


def package_hash(module: str) -> str | None:
    """SHA-256 over every file of the regular package (below namespace packages) or module that holds `module`."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        spec = importlib.util.find_spec(".".join(parts[:end]))
        if spec is None:
            return None
        if spec.submodule_search_locations is None:
            return (
                hash_files(Path(spec.origin).parent, [Path(spec.origin)]) if spec.has_location and spec.origin else None
            )
        if spec.origin is not None:
            root = Path(spec.origin).parent
            return hash_files(root, (path for path in root.rglob("*") if _counts(path, root)))
    return None


def hash_files(root: Path, files: Iterable[Path]) -> str:
    """SHA-256 over names (relative to root) and contents, independent of order; line ends count as they are."""
    digest = hashlib.sha256()
    for path in sorted(files):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def options_hash(options: Mapping[str, Any]) -> str:
    """SHA-256 over options as canonical JSON; a value that JSON has no form for counts by its repr."""
    text = json.dumps(options, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(component: Component) -> str | None:
    """The cache key's part for a component: source, options, declared version, and its requirements' versions.

    None when its source cannot be hashed: such a component must not be cached.
    """
    source = source_hash(component)
    if source is None:
        return None
    parts = {
        "source": source,
        "options": options_hash(component.options),
        "declared": component.declaration.version,
        "requirements": requirement_versions(component.distribution) if component.distribution else {},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def requirement_versions(distribution: str) -> dict[str, str]:
    """Installed versions of what a distribution requires directly."""
    versions = {}
    for text in metadata.requires(distribution) or []:
        try:
            name = Requirement(text).name
        except InvalidRequirement:
            continue
        version = installed_version(name)
        if version is not None:
            versions[name] = version
    return versions


def installed_version(distribution: str) -> str | None:
    """The installed version of a distribution, None when it is not there. Imports nothing."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _definition(target: Any) -> Any:
    """The function or class that the author wrote, out of the partial and the bound method around it."""
    while isinstance(target, functools.partial):
        target = target.func
    owner = getattr(target, "__self__", None)
    if owner is not None:
        return type(owner)
    return inspect.unwrap(target) if inspect.isroutine(target) or inspect.isclass(target) else type(target)


def _counts(path: Path, root: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc" and not _SKIPPED.intersection(path.relative_to(root).parts)
