"""Every distribution of the workspace can be published alone, and a clean venv can use them together."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

from packaging.requirements import Requirement
from plaudit.plugins.fingerprint import package_hash
from plaudit.plugins.known import FIRST_PARTY
from plaudit.plugins.registry import GROUPS

ROOT = Path(__file__).parents[2]
TOO_HEAVY = {"torch", "transformers", "datasets", "accelerate", "gguf"}
LOAD_ALL = """
import importlib.metadata as metadata, json, sys
loaded, broken = {}, {}
for entry in [e for g in json.loads(sys.argv[1]) for e in metadata.entry_points(group=g)]:
    try:
        entry.load()
    except Exception as error:
        broken[f"{entry.dist.name}:{entry.name}"] = repr(error)
    loaded.setdefault(entry.dist.name, []).append(entry.name)
from plaudit.plugins.fingerprint import package_hash
packages = [d.replace("-", "_") for d in loaded]
hashes = {p: package_hash(p) for p in packages}
print(json.dumps({"loaded": loaded, "broken": broken, "torch": "torch" in sys.modules, "hashes": hashes}))
"""


def requirements(member) -> set[str]:
    return {Requirement(text).name for text in member.project.get("dependencies", [])}


def test_every_member_says_what_a_publisher_needs(workspace) -> None:
    development = (ROOT / "requirements-dev.txt").read_text()
    for member in workspace:
        project = member.project
        assert project["license"] == "Apache-2.0", member.name
        assert project["requires-python"] == ">=3.11", member.name
        assert len(project["description"]) > 10, member.name
        assert (member.folder / project["readme"]).read_text().strip(), member.name
        assert (member.folder / "tests").is_dir(), member.name
        folder = member.folder.relative_to(ROOT).as_posix()
        assert re.search(rf"^-e \./{folder}(\[.*\])?$", development, re.MULTILINE), (
            f"{folder} is not in requirements-dev.txt"
        )


def test_every_wheel_holds_its_package_and_nothing_else(workspace, wheels: Path) -> None:
    built = {path.name.split("-")[0]: path for path in wheels.glob("*.whl")}
    for member in workspace:
        names = zipfile.ZipFile(built[member.package]).namelist()
        tops = {name.partition("/")[0] for name in names}
        assert tops == {member.package, f"{member.package}-{member.project['version']}.dist-info"}, member.name
        assert not [name for name in names if "/tests/" in name or name.endswith(".pyc")], member.name
        assert f"{member.package}/__init__.py" in names, member.name
        read = zipfile.ZipFile(built[member.package]).read
        metadata = read(f"{member.package}-{member.project['version']}.dist-info/METADATA").decode()
        assert "License-Expression: Apache-2.0" in metadata


def test_the_table_of_our_names_is_that_of_the_entry_points(workspace) -> None:
    described = {"reward", "verifier", "environment", "sandbox", "dataset", "model"}
    for member in workspace:
        groups = member.project.get("entry-points", {})
        assert groups.keys() <= GROUPS.keys() | {"pytest11", "plaudit.sandbox_choosers"}, member.name
        names = {name for group, entries in groups.items() if GROUPS.get(group) in described for name in entries}
        assert names <= set(FIRST_PARTY.get(member.name, ())), f"add the names of {member.name} to plugins/known.py"


def test_a_clean_venv_imports_and_lists_them(workspace, clean_venv, tmp_path: Path) -> None:
    ours = {member.name for member in workspace}
    light = [member for member in workspace if not requirements(member) & TOO_HEAVY and member.name != "plaudit"]
    assert len(light) >= 3
    clean_venv.borrow(sorted({name for member in light for name in requirements(member)} - ours))
    clean_venv.install(*(member.name for member in light))

    rows = json.loads(clean_venv.run("plaudit", "plugins", "--json", cwd=tmp_path))
    listed = {(row["kind"], row["name"], row["distribution"]) for row in rows}
    expected = {
        (GROUPS[group], name, member.name)
        for member in workspace
        if member in light or member.name == "plaudit"
        for group, entries in member.project.get("entry-points", {}).items()
        for name in entries
        if group in GROUPS
    }
    assert listed == expected
    loaded = json.loads(clean_venv.run("python", "-c", LOAD_ALL, json.dumps(list(GROUPS)), cwd=tmp_path))
    assert {(name, d) for d, names in loaded["loaded"].items() for name in names} == {(n, d) for _, n, d in expected}
    assert loaded["broken"] == {}
    assert loaded["torch"] is False
    # What the lock keeps of a component is the same here and in the editable install that the tests run in.
    assert loaded["hashes"] == {package: package_hash(package) for package in loaded["hashes"]}
