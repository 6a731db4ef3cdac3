"""A complete package from templates: it passes its own tests as written."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Literal, get_args

from plaudit.errors import UsageError

Kind = Literal["reward", "verifier", "environment", "sandbox"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Plan:
    """The names of a new package."""

    kind: Kind
    name: str

    @property
    def distribution(self) -> str:
        return f"plaudit-{self.name.replace('_', '-')}"

    @property
    def package(self) -> str:
        return self.distribution.replace("-", "_")

    @property
    def function(self) -> str:
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        return "".join(part.capitalize() for part in re.split(r"[-_]", self.name))


def write_package(kind: Kind, name: str, folder: Path, *, description: str | None = None) -> Path:
    """Write the package `plaudit-{name}` under `folder` and return its path.

    Raises UsageError on a name that cannot be one, a name that is taken here, or a folder that exists.
    """
    plan = _plan(kind, name)
    home = folder / plan.distribution
    if home.exists():
        raise UsageError(f"{home} exists; choose another name, or --directory")
    values = {
        "name": plan.name,
        "distribution": plan.distribution,
        "package": plan.package,
        "function": plan.function,
        "class_name": plan.class_name,
        "description": description or f"The {plan.name} {kind} for Plaudit",
        "dependencies": '"plaudit>=0.1,<1"' if kind != "sandbox" else '"plaudit-sandbox>=0.1,<1"',
        "entry_points": _entry_points(plan),
    }
    for target, template in _files(plan).items():
        path = home / target
        path.parent.mkdir(parents=True, exist_ok=True)
        text = files("plaudit.authoring").joinpath("templates", template).read_text("utf-8")
        path.write_text(Template(text).safe_substitute(values), encoding="utf-8")
    (home / "src" / plan.package / "__init__.py").write_text(f'"""{values["description"]}."""\n', encoding="utf-8")
    return home


def _plan(kind: Kind, name: str) -> Plan:
    from plaudit.plugins.registry import list_plugins

    plan = Plan(kind, name.removeprefix("plaudit-"))
    if not _NAME.fullmatch(plan.name) or keyword.iskeyword(plan.function):
        raise UsageError(
            f"{name!r} cannot be a name: use lower-case letters, digits and single hyphens, e.g. my-reward"
        )
    kinds = ("reward", "verifier") if kind in ("reward", "verifier") else (kind,)
    taken = next((info for info in list_plugins(kinds) if info.name == plan.name), None)
    if taken is not None:
        raise UsageError(f"'{plan.name}' is already a {taken.kind} of {taken.distribution}; choose another name")
    return plan


def _entry_points(plan: Plan) -> str:
    group = {"sandbox": "sandboxes"}.get(plan.kind, f"{plan.kind}s")
    attribute = plan.function if plan.kind in ("reward", "verifier") else plan.class_name
    lines = [f'[project.entry-points."plaudit.{group}"]', f'{plan.name} = "{plan.package}.{plan.kind}:{attribute}"']
    if plan.kind == "verifier":
        lines += ["", '[project.entry-points."plaudit.corpora"]', f'{plan.name} = "{plan.package}.corpus:cases"']
    return "\n".join(lines)


def _files(plan: Plan) -> dict[str, str]:
    """Where each template goes."""
    source = f"src/{plan.package}"
    chosen = {
        "pyproject.toml": "common/pyproject.toml.in",
        "LICENSE": "common/LICENSE.in",
        ".github/workflows/tests.yml": "common/ci.yml.in",
        "README.md": f"{plan.kind}/README.md.in",
        f"{source}/{plan.kind}.py": f"{plan.kind}/code.py.in",
        f"tests/test_{plan.function}.py": f"{plan.kind}/test.py.in",
    }
    if plan.kind == "verifier":
        chosen[f"{source}/corpus.py"] = "verifier/corpus.py.in"
        chosen[f"{source}/cases.jsonl"] = "verifier/cases.jsonl.in"
    return chosen
