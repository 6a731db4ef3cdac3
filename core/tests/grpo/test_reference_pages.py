"""The reference pages are up to date, and every test that they name is there."""

from __future__ import annotations

import re

import pytest
from legal_values import OWN
from plaudit.grpo import GRPOConfig
from reference_pages import FIELD_TESTS, PAGES, PEER_TESTS, ROOT, TESTS


def named(values):
    """Every path::test among the values, also within a reason."""
    for value in values:
        for text in value if isinstance(value, list) else [value]:
            yield from re.findall(r"[\w/]+\.py(?:::\w+)?", text)


def test_every_field_has_a_test():
    missing = OWN.keys() - FIELD_TESTS.keys()
    assert not missing, f"add the tests of {sorted(missing)} to core/tests/data/field_tests.toml, and `make reference`"
    assert FIELD_TESTS.keys() <= GRPOConfig.__dataclass_fields__.keys()


@pytest.mark.parametrize("where", sorted({*named(FIELD_TESTS.values()), *named(PEER_TESTS.values())}))
def test_a_named_test_is_there(where):
    path, _, name = where.partition("::")
    file = (ROOT / path[1:]) if path.startswith("/") else TESTS / path
    assert re.search(rf"^(async )?def {name}\(" if name else "def test_", file.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name):
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run `make reference`"
