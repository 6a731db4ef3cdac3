"""`plaudit plugins` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = '''
from plaudit import Verdict, verifier

@verifier(timeout_s=3)
def close(completion, reference, unit=None, *, tolerance: float = 0.1, mode: "str | None" = None):
    """Whether two numbers are close."""
    return abs(float(completion) - float(reference)) <= tolerance

class Sized:
    """Pays by length."""
    def __init__(self, limit: int, soft: bool = True): self.limit = limit
    async def __call__(self, completions, level, **columns): return [0.0 for _ in completions]
'''
ENTRIES = {
    "plaudit.verifiers": {"close": "acme_good:close"},
    "plaudit.rewards": {"sized": "acme_good:Sized"},
}
BROKEN = {
    "missing": ("import nothing_like_this", "ModuleNotFoundError"),
    "crashes": ("import os; os._exit(7)", "its import ended the process with status 7"),
    "segfaults": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "status -9"),
    "hangs": ("import time; time.sleep(60)", "took more than 10 s"),
    "leaves": ("import subprocess, os; subprocess.Popen(['sleep', '60']); os._exit(3)", "status 3"),
    "noisy": ("print('x' * 1_000_000)\nx = 1", "'f' is not in"),
    "contract": ("def f(completion, /): ...", "positional-only"),
}


def plaudit(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "plaudit", *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def good(installed) -> Path:
    return installed("acme-good", "1.5", ENTRIES, {"acme_good": GOOD})


def test_the_list_is_metadata_alone(good: Path) -> None:
    (good / "acme_good.py").write_text("raise SystemExit('imported!')")
    rows = json.loads(plaudit(good, "plugins", "--json").stdout)
    mine = [row for row in rows if row["distribution"] == "acme-good"]
    assert mine == [
        {"kind": "reward", "name": "sized", "distribution": "acme-good", "version": "1.5", "value": "acme_good:Sized"},
        {
            "kind": "verifier",
            "name": "close",
            "distribution": "acme-good",
            "version": "1.5",
            "value": "acme_good:close",
        },
    ]
    lines = plaudit(good, "plugins").stdout.splitlines()
    assert lines[0].split() == ["kind", "name", "distribution", "version"]
    assert ["verifier", "close", "acme-good", "1.5"] in [line.split() for line in lines]


def test_listing_imports_no_plugin_and_nothing_heavy(good: Path) -> None:
    script = (
        "import sys; from plaudit.cli import main; main(['plugins']); main(['plugins', '--json']); "
        "print(sorted(m.partition('.')[0] for m in sys.modules), file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": str(good)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(eval(done.stderr))
    assert not loaded & {"acme_good", "torch", "transformers", "numpy", "datasets", "pyarrow", "sympy", "aiohttp"}
    assert {name for name in loaded if name.startswith("plaudit")} == {"plaudit"}


def test_one_is_described(good: Path) -> None:
    text = plaudit(good, "plugins", "close").stdout
    assert "verifier close (acme-good 1.5)" in text
    assert "Whether two numbers are close." in text
    assert "columns: [unit]" in text
    assert "timeout_s=3" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["tolerance", "float", "0.1"] in rows
    (described,) = json.loads(plaudit(good, "plugins", "sized", "--json").stdout)
    assert described["description"] == {
        "doc": "Pays by length.",
        "options": [
            {"name": "limit", "type": "int", "required": True, "default": None},
            {"name": "soft", "type": "bool", "required": False, "default": True},
        ],
        "columns": [{"name": "level", "required": True}],
        "takes_any_column": True,
        "async": True,
        "declared": {},
    }
    file = f"{good / 'acme_good.py'}:close"
    assert "tolerance" in plaudit(good, "plugins", file).stdout


def test_the_list_says_what_clashes_and_what_cannot_be_read(good: Path) -> None:
    other = good / "acme_other-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-other\nVersion: 1\n")
    (other / "entry_points.txt").write_text(
        "[plaudit.rewards]\nclose = nowhere:f\n[plaudit.corpora]\nsized = nowhere:f\n"
    )
    (good / "odd-1.dist-info").mkdir()
    (good / "odd-1.dist-info" / "entry_points.txt").write_text("[plaudit.rewards]\nx = y:z\n")
    told = plaudit(good, "plugins").stderr
    assert "'close' is offered by acme-good and acme-other; name acme-good:close or acme-other:close" in told
    assert "'sized'" not in told
    assert "cannot be read: " in told
    assert "odd-1" in told


def test_an_unknown_name(good: Path) -> None:
    done = plaudit(good, "plugins", "clos", code=2)
    assert done.stderr.startswith("error: no plugin named 'clos'; did you mean 'close' (acme-good 1.5)?")


def test_check_reports_every_kind_of_broken_and_goes_on(installed) -> None:
    entries = {name: f"acme_{name}:f" for name in BROKEN}
    modules = {f"acme_{name}": source for name, (source, _) in BROKEN.items()}
    folder = installed(
        "acme-bad", "1", {"plaudit.verifiers": entries | {"sound": "acme_good:close"}}, modules | {"acme_good": GOOD}
    )
    (folder / "odd-1.dist-info").mkdir()
    (folder / "odd-1.dist-info" / "entry_points.txt").write_text("[plaudit.rewards]\nx = y:z\n")
    done = plaudit(folder, "plugins", "--check", "--kind", "verifier", "--json", "--timeout-s", "10", code=1)
    results = {row["name"]: row["error"] for row in json.loads(done.stdout) if row["distribution"] == "acme-bad"}
    assert results.pop("sound") is None
    for name, (_, says) in BROKEN.items():
        assert says in results[name], name
    assert any("odd-1" in row["distribution"] for row in json.loads(done.stdout))
    assert plaudit(folder, "plugins", "missing", code=1).stdout.count("ModuleNotFoundError") == 1


def test_check_of_sound_plugins_is_silent_and_passes(good: Path) -> None:
    text = plaudit(good, "plugins", "--check", "--kind", "hooks").stdout
    assert text.endswith("components are sound\n")
    assert "broken" not in text
