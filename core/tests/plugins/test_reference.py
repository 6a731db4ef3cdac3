"""References are told apart by their text alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit.errors import UsageError
from plaudit.plugins.reference import Reference

FORMS = [
    # text, name, owner, path, wanted
    ("math", "math", None, None, ""),
    ("  math ", "math", None, None, ""),
    ("think-format.v2", "think-format.v2", None, None, ""),
    ("plaudit-math:math", "math", "plaudit-math", None, ""),
    ("quickstart:addition", "addition", "quickstart", None, ""),
    ("plaudit-quickstart:quickstart:addition", "quickstart:addition", "plaudit-quickstart", None, ""),
    ("math@1.2", "math", None, None, "@1.2"),
    ("math@1.2.0", "math", None, None, "@1.2.0"),
    ("math>=1,<2", "math", None, None, ">=1,<2"),
    ("math >= 1, < 2", "math", None, None, ">= 1, < 2"),
    ("math==1.2", "math", None, None, "==1.2"),
    ("math~=1.2", "math", None, None, "~=1.2"),
    ("plaudit-math:math!=1.3", "math", "plaudit-math", None, "!=1.3"),
    ("package.module:attribute", "attribute", "package.module", None, ""),
    ("package.module:Class.method", "Class.method", "package.module", None, ""),
    ("./file.py:function", "function", None, "./file.py", ""),
    ("../up/file.py:function", "function", None, "../up/file.py", ""),
    ("file.py:function", "function", None, "file.py", ""),
    ("/abs/my file.py:function", "function", None, "/abs/my file.py", ""),
    ("~/file.py:function", "function", None, "~/file.py", ""),
    (r"C:\rewards\file.py:function", "function", None, r"C:\rewards\file.py", ""),
    ("C:/rewards/file.py:Class.method", "Class.method", None, "C:/rewards/file.py", ""),
    ("./v1.2@x/file.py:f", "f", None, "./v1.2@x/file.py", ""),
    ("https://host:8000/math/#judge", "judge", None, None, ""),
    ("奖励", "奖励", None, None, ""),
]


@pytest.mark.parametrize(("text", "name", "owner", "path", "wanted"), FORMS)
def test_forms(text: str, name: str, owner: str | None, path: str | None, wanted: str) -> None:
    parsed = Reference.parse(text)
    assert (parsed.name, parsed.owner, parsed.path, parsed.wanted) == (name, owner, path, wanted)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no component"),
        ("   ", "names no component"),
        (None, "names no component"),
        ("a b", "is not a reference"),
        (":math", "is not a reference"),
        ("math:", "is not a reference"),
        ("-math", "is not a reference"),
        ("./file.py", r"write \./file.py:function"),
        ("./file:function", r"write \./file.py:function"),
        ("/etc/passwd", r"write \./file.py:function"),
        (r"C:\rewards\file.py", r"write \./file.py:function"),
        ("rewards.py", r"write \./file.py:function"),
        ("./file.py:not a name", "write"),
        ("math@", "no version specifier"),
        ("math@new", "no version specifier"),
        ("math>=", "no version specifier"),
        ("math>=1,<<2", "no version specifier"),
        ("https://host/x", "names no served reward"),
        ("https://host/#a b", "names no served reward"),
    ],
)
def test_what_is_no_reference_says_what_to_write(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Reference.parse(text)


@pytest.mark.parametrize(
    ("wanted", "version", "accepted"),
    [
        ("", "0.1", True),
        ("", "not a version", True),
        ("@1.2", "1.2", True),
        ("@1.2", "1.2.0", True),
        ("@1.2", "1.2.9", True),
        ("@1.2", "1.3", False),
        ("@1", "1.9.9", True),
        ("@1", "2.0", False),
        ("@1.2.0", "1.2.0", True),
        ("@1.2.0", "1.2", True),
        ("@1.2.0", "1.2.1", False),
        (">=1,<2", "1.9", True),
        (">=1,<2", "2.0", False),
        (">=1,<2", "1.5rc1", True),
        ("~=1.2", "1.9", True),
        ("==1.2", "1.2.1", False),
        ("==1.2", "1.2+local", True),
        (">=1", "not a version", False),
    ],
)
def test_versions(wanted: str, version: str, accepted: bool) -> None:
    assert Reference.parse(f"math{wanted}").accepts(version) is accepted


@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused_in_words(text: str) -> None:
    try:
        parsed = Reference.parse(text)
    except UsageError:
        return
    assert parsed.name
    assert parsed.text == text.strip()
