"""Every Python block of the pages about tools and the gym prints what the page says; their run files are valid."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from plaudit.run.runfile import load_run_file

ROOT = Path(__file__).parents[3]
PAGES = ("docs/gym.md", "docs/concepts/tools.md")
BLOCK = re.compile(r"^```python\n(.*?)^```\n+```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(*block, id=f"{page}-{number}")
    for page in PAGES
    if (ROOT / page).exists()
    for number, block in enumerate(BLOCK.findall((ROOT / page).read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("program", "printed"), BLOCKS)
def test_blocks_print_what_the_page_says(program, printed):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == printed, done.stderr


def test_there_are_blocks():
    assert len(BLOCKS) == 3


def test_the_run_file_of_the_page(tmp_path):
    block = re.search(r"^```toml\n(.*?)^```$", (ROOT / "docs/gym.md").read_text(encoding="utf-8"), re.M | re.S)
    file = tmp_path / "run.toml"
    file.write_text(f'output_dir = "x"\n[model]\npath = "m"\n{block[1]}', encoding="utf-8")
    run = load_run_file(file)
    assert run.rewards[0].name == "reasoning_gym:gcd"
