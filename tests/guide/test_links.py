"""Links between files of the repository, which `mkdocs --strict` follows only within docs/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("skills/**/*.md")]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:examples|skills|benchmarks|docs)/[\w./-]+\w)`")


def text_of(page: Path) -> str:
    """Without code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in a link."""
    headings = re.findall(r"^#+ +(.+)$", text_of(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one)) for one in headings]
    return {re.sub(r"[-\s]+", "-", one.strip().lower()) for one in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for target in LINK.findall(text_of(page)):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert ROOT in there.parents or there == ROOT, target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_is_named_is_there(page):
    for path in NAMED.findall(text_of(page)):
        assert (ROOT / path).exists(), path
