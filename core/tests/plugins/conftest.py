"""Plugins that are installed for one test: modules and metadata in a temporary folder on sys.path."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

Install = Callable[..., Path]


def write_distribution(
    folder: Path, name: str, version: str, entry_points: Mapping[str, Mapping[str, str]], modules: Mapping[str, str]
) -> Path:
    """Lay out what `pip install` would: modules (path without .py -> source) and a dist-info with entry points."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    sections = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in entry_points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(sections))
    for module, source in modules.items():
        path = folder / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    return folder


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """install(name, version, entry_points, modules) -> its folder, on sys.path until the test ends."""
    count = 0

    def install(
        name: str,
        version: str = "1.0",
        entry_points: Mapping[str, Mapping[str, str]] | None = None,
        modules: Mapping[str, str] | None = None,
    ) -> Path:
        nonlocal count
        count += 1
        folder = tmp_path / f"site{count}"
        write_distribution(folder, name, version, entry_points or {}, modules or {})
        monkeypatch.syspath_prepend(str(folder))
        return folder

    before = set(sys.modules)
    yield install
    for name in set(sys.modules) - before:
        where = str(getattr(sys.modules[name], "__file__", None))
        if where.startswith(str(tmp_path)):
            del sys.modules[name]
