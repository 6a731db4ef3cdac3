"""What the benchmarks write into docs/benchmarks.md: the rows that they measured, and nothing else."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A copy of the page; the benchmarks' modules can be imported."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    copy = tmp_path / "benchmarks.md"
    copy.write_bytes(PAGE.read_bytes())
    monkeypatch.chdir(tmp_path)
    return copy


def run_main(module, page, monkeypatch, *words):
    """The benchmark's command with made-up measurements, written into the copy; pictures too."""
    monkeypatch.setattr(module, "run", measured)
    monkeypatch.setattr(module, "write_rows", functools.partial(module.write_rows, page=page))
    monkeypatch.setattr(sys, "argv", ["benchmark", *words])
    module.main()


def measured(script, words, threads):
    seconds = 1.0 if "plaudit" in words else 4.0
    names = ("cpu_s_a_step", "wall_s_a_step", "pass_cpu_s_a_step")
    if script == "memory_run.py":
        sizes = {name: int(value) for name, value in (word.removeprefix("--").split("=") for word in words[1:])}
        return {"engine": words[0], "peak_mb": seconds, **sizes}
    return {"workload": words[0], "competitor": words[1], **dict.fromkeys(names, seconds)}


def rows_of(page, name):
    from sections import read_rows

    return {row[0]: row for row in read_rows(name, page)}


def outside(page, name):
    return re.sub(rf"<!-- {name} -->.*<!-- end {name} -->", "", page.read_text(), flags=re.DOTALL)


def test_one_workloads_row_is_replaced(page, monkeypatch):
    import speed
    from workloads import WORKLOADS

    monkeypatch.setattr(speed, "check_golden", lambda console: None)
    before, rest = rows_of(page, "speed"), outside(page, "speed")
    run_main(speed, page, monkeypatch, "--docs", "--workload", "mixed", "--repeats", "2")
    after, changed = rows_of(page, "speed"), WORKLOADS["mixed"].what
    assert list(after) == list(before)
    assert {name for name in after if after[name] != before[name]} == {changed}
    assert after[changed][1:6] == ["1.000", "4.000", "4.000", "4.00", "4.00"]
    assert outside(page, "speed") == rest
    for row in list(after.values())[1:]:
        assert re.search(rf"^{re.escape(row[-1])}: .* cores, .*medians of", page.read_text(), re.MULTILINE), row[-1]
    # All of them: nothing of the old table is left.
    run_main(speed, page, monkeypatch, "--docs", "--repeats", "1")
    assert len({row[-1] for row in list(rows_of(page, "speed").values())[1:]}) == 1
    assert page.read_text().count("medians of") == page.read_text().count("medians of 1.") == 1


def test_one_axis_of_growth_is_replaced_and_the_whole_table_drawn(page, monkeypatch):
    import scaling

    drawn = []
    monkeypatch.setattr(scaling, "read_rows", functools.partial(scaling.read_rows, page=page))
    monkeypatch.setattr(scaling, "draw", lambda points, path: drawn.append((points, path)))
    before, rest = rows_of(page, "scaling"), outside(page, "scaling")
    run_main(scaling, page, monkeypatch, "--docs", "--axes", "rewards", "--points", "2")
    after = rows_of(page, "scaling")
    assert {name for name in after if after[name] != before[name]} == {"rewards = 1", "rewards = 4"}
    assert list(after) == list(before)
    assert outside(page, "scaling") == rest
    ((points, path),) = drawn
    assert path == scaling.PICTURE
    assert len(points) == 2 * (len(after) - 1)
    assert {point["cpu_s_a_step"] for point in points if point["axis"] == "rewards" and point["value"] == 4} == {1, 4}


def test_one_size_of_memory_is_added_at_its_place(page, monkeypatch):
    import memory

    before, rest = rows_of(page, "memory"), outside(page, "memory")
    run_main(memory, page, monkeypatch, "--docs", "--sizes", "128000x256")
    after = rows_of(page, "memory")
    assert {name for name in after if after[name] != before.get(name)} == {"V = 128,000, C = 256"}
    order = [memory.label(*size) for size in memory.SIZES.values()]
    assert list(after)[1:] == [label for label in order if label in after]
    assert after["V = 128,000, C = 256"][1:4] == ["1", "4", "4.00"]
    assert outside(page, "memory") == rest


def test_the_picture_has_a_tick_for_each_value_and_no_other_labels(page, monkeypatch, tmp_path):
    import scaling
    from matplotlib import pyplot

    kept = []
    monkeypatch.setattr(pyplot, "close", kept.append)
    scaling.draw(scaling.points_of(scaling.read_rows("scaling", page)[1:]), tmp_path / "scaling.png")
    for panel, (_, values) in zip(kept[0].axes, scaling.AXES.values(), strict=True):
        assert [float(place) for place in panel.get_xticks()] == values
        minor = [label.get_text() for label in (*panel.get_xminorticklabels(), *panel.get_yminorticklabels())]
        assert not any(minor)


@pytest.mark.parametrize("words", [("speed", "--competitors"), ("scaling", "--engines"), ("memory", "--engines")])
def test_one_engine_alone_is_not_written(page, monkeypatch, capsys, words):
    module = __import__(words[0])
    monkeypatch.setattr(sys, "argv", ["benchmark", "--docs", words[1], "plaudit"])
    with pytest.raises(SystemExit):
        module.main()
    assert "--docs compares: it needs" in capsys.readouterr().err
    assert page.read_bytes() == PAGE.read_bytes()


def test_other_columns_ask_for_the_whole_table(page):
    from sections import write_rows

    with pytest.raises(ValueError, match="has other columns: measure all of its rows"):
        write_rows("speed", ["workload", "s"], [["a", "1"]], "here.", order=["a", "b"], page=page)
    write_rows("speed", ["workload", "s"], [["b", "2"], ["a", "1"]], "here.", order=["a", "b"], page=page)
    assert list(rows_of(page, "speed")) == ["workload", "a", "b"]
    with pytest.raises(ValueError, match="has no section nothing"):
        write_rows("nothing", ["a"], [], "here.", order=[], page=page)
