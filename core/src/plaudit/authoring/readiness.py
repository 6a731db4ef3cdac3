"""Whether a package is ready to publish: it builds, says what it is, and what it brings works once installed."""

from __future__ import annotations

import json
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from plaudit.authoring.environment import build_wheel, environment_with, run_command
from plaudit.errors import PlauditError, UsageError
from plaudit.plugins.registry import GROUPS

MAX_WHEEL_MB = 20.0
MIN_ACCURACY = 0.95


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its name, whether it held, and what was found."""

    check: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Package:
    """A built package: its project table, wheel, and the Python of an environment that has it installed."""

    folder: Path
    project: Mapping[str, Any]
    wheel: Path
    python: Path


def check_package(folder: Path) -> list[Finding]:
    """Build the package and run every check on it; a check that cannot run is a finding too.

    Raises UsageError where there is no project with a pyproject.toml.
    """
    project = _project(folder)
    with tempfile.TemporaryDirectory(prefix="plaudit-check-") as name:
        scratch = Path(name)
        try:
            wheel = build_wheel(folder, scratch)
            package = Package(folder, project, wheel, environment_with(wheel, scratch))
        except PlauditError as error:
            return [Finding("build", False, str(error))]
        findings = [Finding("build", True, wheel.name)]
        for title, check in CHECKS.items():
            try:
                findings.append(Finding(title, True, check(package)))
            except (PlauditError, AssertionError) as error:
                findings.append(Finding(title, False, str(error)))
        return findings


def _project(folder: Path) -> Mapping[str, Any]:
    path = folder / "pyproject.toml"
    try:
        project = tomllib.loads(path.read_text("utf-8")).get("project")
    except OSError as error:
        raise UsageError(
            f"there is no {path}; give the folder of a package, e.g. one that `plaudit new` wrote"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    if not isinstance(project, dict) or "name" not in project:
        raise UsageError(f"{path} has no [project] table with a name")
    return project


def _metadata(package: Package) -> str:
    with zipfile.ZipFile(package.wheel) as archive:
        name = next(member for member in archive.namelist() if member.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(name).decode("utf-8"))
    missing = [field for field in ("Summary", "Requires-Python", "Description-Content-Type") if not headers.get(field)]
    assert not missing, f"the metadata lacks {', '.join(missing)}: set description, requires-python and readme"
    needs = [one for one in headers.get_all("Requires-Dist") or [] if one.lower().startswith("plaudit")]
    assert needs, 'it does not depend on plaudit; add "plaudit>=0.1,<1" to dependencies'
    return f"{headers['Name']} {headers['Version']}, needs {needs[0]}"


def _licence(package: Package) -> str:
    with zipfile.ZipFile(package.wheel) as archive:
        name = next(member for member in archive.namelist() if member.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(name).decode("utf-8"))
    licence = headers.get("License-Expression") or headers.get("License")
    assert licence, "no licence is named; set license in [project]"
    files = [path.name for path in package.folder.iterdir() if path.name.upper().startswith(("LICENSE", "LICENCE"))]
    assert files, "there is no LICENSE file"
    return str(licence)


def _size(package: Package) -> str:
    megabytes = package.wheel.stat().st_size / 1e6
    assert megabytes <= MAX_WHEEL_MB, f"the wheel has {megabytes:.1f} MB, more than {MAX_WHEEL_MB:g}: leave data out"
    return f"{megabytes * 1000:.0f} kB"


def _entry_points(package: Package) -> str:
    found = [(GROUPS[group], name) for group, name in _points(package) if group in GROUPS]
    assert found, f"it brings no entry point of {', '.join(GROUPS)}"
    errors = {name: error for kind, name in found if (error := _import_error(package, kind, name))}
    assert not errors, "; ".join(f"{name}: {error}" for name, error in errors.items())
    return ", ".join(f"{kind} {name}" for kind, name in found)


def _import_error(package: Package, kind: str, name: str) -> str | None:
    """Why the installed component cannot be loaded, or None."""
    answer = package.wheel.with_name("probe.json")
    reference = f"{package.project['name']}:{name}"
    run_command([str(package.python), "-m", "plaudit.plugins.probe", kind, reference, str(answer)])
    error = json.loads(answer.read_text("utf-8")).get("error")
    return None if error is None else str(error)


def _points(package: Package) -> list[tuple[str, str]]:
    groups = package.project.get("entry-points") or {}
    return [(group, name) for group, points in groups.items() for name in points]


def _tests(package: Package) -> str:
    assert (package.folder / "tests").is_dir(), "there is no folder tests/"
    said = run_command(
        [str(package.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"], cwd=package.folder
    )
    return said.strip().rsplit("\n", 1)[-1].strip("= ")


def _audit(package: Package) -> str:
    points = _points(package)
    audited = [name for group, name in points if group == "plaudit.corpora" and ("plaudit.verifiers", name) in points]
    if not any(group == "plaudit.verifiers" for group, _ in points):
        return "no verifier to audit"
    assert audited, "no verifier brings cases: add an entry point in plaudit.corpora under the verifier's name"
    reports = [
        json.loads(run_command([str(package.python), "-m", "plaudit", "audit", name, "--json"])) for name in audited
    ]
    poor = [report for report in reports if report["accuracy"] < MIN_ACCURACY]
    assert not poor, "; ".join(
        f"{report['name']} is right on {report['accuracy']:.1%} of its own cases" for report in poor
    )
    return ", ".join(f"{report['name']} right on {report['right']} of {report['n']}" for report in reports)


CHECKS: dict[str, Callable[[Package], str]] = {
    "metadata": _metadata,
    "licence": _licence,
    "size": _size,
    "entry points": _entry_points,
    "tests": _tests,
    "audit": _audit,
}
