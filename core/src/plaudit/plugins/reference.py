"""The strings that name a component: `math`, `plaudit-math:math`, `math@1.2`, `package.module:attr`, `./file.py:func`.

How they are told apart, in this order: `https://host/#name` is a served reward; text with `.py:` in it is a file; other
text with a colon is `owner:name`, where the owner is a distribution if an installed one of that name offers `name`, and
a module if not; all else is a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from plaudit.errors import UsageError

_FILE = re.compile(r"^(?P<path>.+\.py):(?P<attribute>[^\W\d][\w.]*)$")
_PATH_LIKE = re.compile(r"^(\.{0,2}[/\\]|~|[A-Za-z]:[/\\])|\.py$")
_URL = re.compile(r"^(?P<url>https?://[^\s#]+)#(?P<name>[\w.-]+)$")
_NAME = re.compile(r"^(?:(?P<owner>[A-Za-z0-9_][\w.-]*):)?(?P<name>\w(?:[\w./+:-]*[\w./+-])?(?::\*)?)$")
_VERSION_STARTS = re.compile(r"\s*(?:@|[<>=!~]=?)")
FORMS = (
    "name, distribution:name, name@1.2, name>=1,<2, package.module:attribute, ./file.py:function or https://host/#name"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed reference. A file has `path` and `name` (its attribute); `owner` is what stands before the colon.

    `wanted` is the version as written ("" = any) and `specifier` what it means: `@1.2` takes every 1.2.x, `@1.2.0` only
    1.2.0.
    """

    text: str
    name: str
    owner: str | None = None
    path: str | None = None
    url: str | None = None
    wanted: str = ""
    specifier: SpecifierSet | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Raises UsageError, saying which forms there are, on text that is none of them."""
        stripped = text.strip() if isinstance(text, str) else ""
        if not stripped:
            raise UsageError(f"{text!r} names no component; write one of {FORMS}")
        if stripped.startswith(("http://", "https://")):
            return cls._remote(stripped)
        if file := _FILE.match(stripped):
            return cls(stripped, file["attribute"], path=file["path"])
        if _PATH_LIKE.search(stripped):
            raise UsageError(f"'{stripped}' is not a file reference; write ./file.py:function")
        split = _VERSION_STARTS.search(stripped)
        body = stripped[: split.start()] if split else stripped
        wanted = stripped[split.start() :].strip() if split else ""
        match = _NAME.match(body)
        if match is None:
            raise UsageError(f"'{stripped}' is not a reference; write {FORMS}")
        specifier = _specifier(stripped, wanted) if wanted else None
        return cls(stripped, match["name"], owner=match["owner"], wanted=wanted, specifier=specifier)

    @classmethod
    def _remote(cls, text: str) -> Reference:
        match = _URL.match(text)
        if match is None:
            raise UsageError(f"'{text}' names no served reward; write https://host/#name")
        return cls(text, match["name"], url=match["url"].rstrip("/"))

    @property
    def full_name(self) -> str:
        """The name with its owner, as an entry point could also be called (`reasoning_gym:countdown`)."""
        return f"{self.owner}:{self.name}" if self.owner else self.name

    def accepts(self, version: str) -> bool:
        """Whether an installed version meets what is wanted; a version that is no PEP 440 version only meets "any"."""
        if self.specifier is None:
            return True
        try:
            return self.specifier.contains(Version(version), prereleases=True)
        except InvalidVersion:
            return False


def _specifier(text: str, wanted: str) -> SpecifierSet:
    if wanted.startswith("@"):
        exact = wanted[1:].strip()
        wanted = f"=={exact}" if exact.count(".") >= 2 else f"=={exact}.*"
    try:
        return SpecifierSet(wanted)
    except InvalidSpecifier:
        raise UsageError(f"'{text}': no version specifier after the name; write name@1.2 or name>=1,<2") from None
