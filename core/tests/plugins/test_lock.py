"""Fingerprints, and the lock that says in words what changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from plaudit import UsageError, load_reward
from plaudit.plugins.fingerprint import fingerprint, options_hash, package_hash, source_hash
from plaudit.plugins.lock import Lock, require_locked

PACKAGE = {
    "acme_pkg/__init__": "",
    "acme_pkg/rewards": "from acme_pkg.parts import f\n\nclass Judge:\n    def __init__(self, k: int = 1): self.k = k\n"
    "    def verify(self, completion, reference): return self.k\n",
    "acme_pkg/parts": "def f(completions, *, scale: float = 1.0, **kw): return [scale for _ in completions]\n",
}
ENTRIES = {"plaudit.rewards": {"acme_f": "acme_pkg.rewards:f", "acme_judge": "acme_pkg.rewards:Judge"}}


def install(installed, version: str = "1.0") -> Path:
    return installed("acme-pkg", version, ENTRIES, PACKAGE)


@pytest.mark.parametrize("name", ["acme_f", "acme_judge"])
def test_the_source_is_the_whole_package(installed, name: str) -> None:
    folder = install(installed)
    before = source_hash(load_reward(name).component)
    assert before is not None
    assert source_hash(load_reward(name, options=None).component) == before
    (folder / "acme_pkg" / "__pycache__").mkdir(exist_ok=True)
    (folder / "acme_pkg" / "__pycache__" / "parts.cpython.pyc").write_bytes(b"x")
    assert source_hash(load_reward(name).component) == before
    (folder / "acme_pkg" / "table.json").write_text("{}")
    with_data = source_hash(load_reward(name).component)
    assert with_data != before
    (folder / "acme_pkg" / "table.json").write_text("{ }")
    assert source_hash(load_reward(name).component) not in (before, with_data)


def test_the_same_package_elsewhere_has_the_same_hash(installed, tmp_path: Path) -> None:
    install(installed)
    here = package_hash("acme_pkg.rewards")
    install(installed)
    assert package_hash("acme_pkg") == here


def test_a_file_and_a_closure(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def f(completions): return [1.0]\n")
    before = source_hash(load_reward(f"{file}:f").component)
    (tmp_path / "other.py").write_text("x = 1\n")
    assert source_hash(load_reward(f"{file}:f").component) == before
    file.write_text("def f(completions): return [2.0]\n")
    assert source_hash(load_reward(f"{file}:f").component) != before
    closure = load_reward(lambda completions: [1.0]).component
    assert source_hash(closure) is None
    assert fingerprint(closure) is None


def test_a_fingerprint_follows_source_options_and_declared_version(installed) -> None:
    install(installed)
    plain = fingerprint(load_reward("acme_f").component)
    assert plain == fingerprint(load_reward("acme-pkg:acme_f").component)
    component = load_reward("acme_f", options={"scale": 2.0}).component
    scaled = fingerprint(component)
    declared = fingerprint(replace(component, declaration=replace(component.declaration, version="2")))
    assert len({plain, scaled, declared}) == 3


def test_options_hash_ignores_order_only() -> None:
    assert options_hash({"a": 1, "b": [1, 2]}) == options_hash({"b": [1, 2], "a": 1})
    assert len({options_hash(o) for o in ({}, {"a": 1}, {"a": 2}, {"a": "1"}, {"a": [1]}, {"a": 1.5})}) == 6


def test_a_lock_read_back_shows_no_drift(installed, tmp_path: Path) -> None:
    install(installed)
    path = tmp_path / "plaudit.lock"
    lock = Lock.of([load_reward("acme_f").component, load_reward("acme_judge", name="other").component], seed=3)
    lock.write(path)
    assert Lock.read(path) == lock
    require_locked(path, lock)
    assert {c["name"] for c in json.loads(path.read_text())["components"]} == {"acme_f", "other"}
    assert lock.libraries["plaudit"]


def test_drift_is_told_in_words(installed, tmp_path: Path) -> None:
    folder = install(installed)
    path = tmp_path / "plaudit.lock"
    gone = load_reward(lambda completions: [0.0], name="gone").component
    Lock.of([load_reward("acme_f").component, load_reward("acme_judge").component, gone], seed=3).write(path)
    (folder / "acme_pkg" / "parts.py").write_text(PACKAGE["acme_pkg/parts"] + "# edited\n")
    new = load_reward(lambda completions: [0.0], name="new").component
    judge = load_reward("acme_judge", options={"k": 2}).component
    now = Lock.of([load_reward("acme_f").component, judge, new], seed=4)
    now = replace(now, libraries={**now.libraries, "torch": "0.1", "vllm": "9"}, python="3.0")
    with pytest.raises(UsageError) as caught:
        require_locked(path, now)
    message = str(caught.value)
    for line in (
        "'new' is new", "'gone' is gone", "'acme_f': its files changed (version 1.0)",
        "'acme_judge': its options changed", "seed: 3 -> 4", "-> 0.1", "vllm: not installed -> 9", "-> 3.0",
    ):  # fmt: skip
        assert line in message


def test_a_new_version_and_another_distribution(installed, tmp_path: Path) -> None:
    install(installed)
    before = Lock.of([load_reward("acme_f").component])
    install(installed, "1.1")
    assert before.drift_to(Lock.of([load_reward("acme_f").component])) == ["'acme_f': version 1.0 -> 1.1"]
    file = tmp_path / "f.py"
    file.write_text(PACKAGE["acme_pkg/parts"])
    drift = before.drift_to(Lock.of([load_reward(f"{file}:f", name="acme_f").component]))
    assert drift[0] == "'acme_f': reward acme_f of acme-pkg -> reward f.py:f of no distribution"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no lock at"),
        ("not json", "is not a plaudit.lock"),
        ("[]", "is not a plaudit.lock"),
        ('{"format": 99, "components": []}', "another version"),
        ('{"format": 1, "components": [{"name": "x"}]}', "is not a plaudit.lock"),
        ('{"format": 1, "components": [], "odd": 1}', "is not a plaudit.lock"),
    ],
)
def test_what_is_no_lock(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "plaudit.lock"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=says):
        Lock.read(path)


PARTS = {
    "parts_pkg/__init__": "",
    "parts_pkg/all": """
        class Game:
            def __init__(self, size: int = 3): self.size = size
            def reset(self, **row): return None
            def look(self) -> str: "Look."
        def rows(split: str = "train", count: int = 2): return [{"prompt": str(n)} for n in range(count)]
        def weights(): return "/nowhere"
        def tool(x: int) -> int: return x
    """,
}
PARTS_ENTRIES = {
    "plaudit.environments": {"game": "parts_pkg.all:Game"},
    "plaudit.datasets": {"numbers": "parts_pkg.all:rows"},
    "plaudit.models": {"small": "parts_pkg.all:weights"},
}


def parts_of(**tables: object) -> Lock:
    from plaudit.run.locking import locked_parts
    from plaudit.run.runfile import parse_run

    run = {
        "output_dir": "o", "model": {"path": "small"}, "data": {"name": "numbers", "options": {"count": 4}},
        "environment": [{"name": "game", "options": {"size": 4}}], "tools": ["parts_pkg.all:tool"],
        **tables,
    }  # fmt: skip
    run = {key: value for key, value in run.items() if value is not None}
    return Lock.of([], locked_parts(parse_run(run)))


def test_environments_datasets_models_and_tools_are_locked(installed, tmp_path: Path) -> None:
    folder = installed("parts-pkg", "1.0", PARTS_ENTRIES, PARTS)
    lock = parts_of()
    assert [(part.kind, part.name, part.distribution, part.version) for part in lock.components] == [
        ("model", "small", "parts-pkg", "1.0"), ("dataset", "numbers", "parts-pkg", "1.0"),
        ("environment", "game", "parts-pkg", "1.0"), ("tool", "parts_pkg.all:tool", None, None),
    ]  # fmt: skip
    assert {part.files for part in lock.components} == {package_hash("parts_pkg.all")}
    path = tmp_path / "plaudit.lock"
    lock.write(path)
    assert Lock.read(path) == lock
    require_locked(path, parts_of())
    changed = parts_of(environment=[{"name": "game"}], data={"name": "numbers"}, tools=[])
    assert lock.drift_to(changed) == [
        "tool 'parts_pkg.all:tool' is gone", "dataset 'numbers': its options changed",
        "environment 'game': its options changed",
    ]  # fmt: skip
    (folder / "parts_pkg" / "board.txt").write_text("x")
    with pytest.raises(UsageError, match=r"(?s)model 'small': its files changed.*dataset 'numbers': its files changed"):
        require_locked(path, parts_of())
    installed("parts-pkg", "1.1", PARTS_ENTRIES, PARTS)
    assert "environment 'game': version 1.0 -> 1.1" in lock.drift_to(parts_of())


def test_what_is_no_plugin_is_not_locked_and_one_name_may_come_with_two_options(installed, tmp_path: Path) -> None:
    installed("parts-pkg", "1.0", PARTS_ENTRIES, PARTS)
    tasks = [
        {"name": name, "ratio": 1, "data": {"path": "x.jsonl"}, "environment": {"name": "game", "options": options}}
        for name, options in (("a", {"size": 4}), ("b", {"size": 4}), ("c", {"size": 5}))
    ]
    lock = parts_of(data=None, environment=[], tools=[], task=tasks, model={"path": str(tmp_path)})
    assert [part.label for part in lock.components] == ["environment 'game'", "environment 'game of task c'"]
    assert lock.components[0].options != lock.components[1].options
