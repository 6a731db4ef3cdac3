"""A family: one entry point that gives a component of each name."""

from __future__ import annotations

import pytest
from plaudit import PluginError, list_plugins, load_verifier

FAMILY = """
    def verifier_of(name):
        if name not in ("one", "two"):
            raise KeyError(f"no number {name!r}")
        def verify(completion, reference):
            "Judge a number."
            return float(completion == name)
        return verify
"""


def install_family(installed) -> None:
    installed(
        "acme-numbers",
        "2.0",
        {"plaudit.verifiers": {"numbers:*": "acme_numbers:verifier_of"}},
        {"acme_numbers": FAMILY},
    )


@pytest.mark.parametrize("reference", ["numbers:two", "acme-numbers:numbers:two", "numbers:two@2.0"])
def test_a_family_gives_the_component_of_each_name(installed, reference) -> None:
    install_family(installed)
    verify = load_verifier(reference)
    assert (verify("two", "x").score, verify("one", "x").score) == (1.0, 0.0)


def test_a_name_that_a_family_does_not_have(installed) -> None:
    install_family(installed)
    with pytest.raises(
        PluginError, match=r"verifier 'numbers:three' \(acme-numbers 2.0\) does not exist: no number 'three'"
    ):
        load_verifier("numbers:three")
    with pytest.raises(PluginError, match=r"wants >=3, found acme-numbers 2\.0"):
        load_verifier("numbers:two>=3")


def test_a_family_is_one_line_in_the_list_and_its_members_are_described(installed) -> None:
    install_family(installed)
    from plaudit.plugins.describe import describe
    from plaudit.plugins.resolve import resolve

    assert [info.name for info in list_plugins(["verifier"]) if info.distribution == "acme-numbers"] == ["numbers:*"]
    assert describe("verifier", *resolve("acme-numbers:numbers:*", ("verifier",))) == {"doc": ""}
    described = describe("verifier", *resolve("numbers:one", ("verifier",)))
    assert described["doc"] == "Judge a number."
