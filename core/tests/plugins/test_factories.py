"""References to environments and to what is no callable: made by a call."""

from __future__ import annotations

from pathlib import Path

import pytest
from plaudit import PluginError, UsageError, load_environment
from plaudit.plugins.loading import load_plugin

ENVIRONMENTS = """
class Game:
    def __init__(self, size: int = 3): self.size = size
    def reset(self, **row): return None

class Shapeless: pass

class Episode:
    def build_dataset(self, tokenizer): ...
    def score_episode(self, model, tokenizer, completion): return 1.0

def make(size: int = 3, *, seed: int): return Game(size * seed)
"""


def test_environments_are_factories(tmp_path: Path) -> None:
    file = tmp_path / "envs.py"
    file.write_text(ENVIRONMENTS)
    factory = load_environment(f"{file}:Game", options={"size": 5})
    assert (factory().size, factory() is factory()) == (5, False)
    assert load_environment(f"{file}:make", options={"size": 2, "seed": 3})().size == 6
    assert hasattr(load_environment(f"{file}:Episode")(), "score_episode")
    with pytest.raises(PluginError, match="'Shapeless' has no reset"):
        load_environment(f"{file}:Shapeless")
    with pytest.raises(UsageError, match="has no option 'sise'; did you mean 'size'"):
        load_environment(f"{file}:Game", options={"sise": 1})
    with pytest.raises(UsageError, match="needs the option 'seed'"):
        load_environment(f"{file}:make")


def test_an_object_that_is_no_callable_comes_from_a_function(installed) -> None:
    installed(
        "acme-data", "1", {"plaudit.datasets": {"rows": "acme_data:ROWS"}}, {"acme_data": "ROWS = [{'prompt': 'a'}]"}
    )
    assert load_plugin("dataset", "rows")() == [{"prompt": "a"}]
    with pytest.raises(UsageError, match="takes no options: it is a list"):
        load_plugin("dataset", "rows", options={"n": 1})
    with pytest.raises(PluginError, match="no dataset named 'row'; did you mean 'rows'"):
        load_plugin("dataset", "row")
