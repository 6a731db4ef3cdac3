"""Train with TRL and with Plaudit, the same model, seeds, rewards and injected completions, and compare each step.

`python benchmarks/parity.py [--only=features|product|TEXT] [--docs]`: five steps of a real `train()` in float64 for
each configuration of core/tests/trainer/parity_grid.py, about a second of one core each. Prints the worst relative
differences of losses, gradient norms, logged metrics and final weights; `--docs` writes them into docs/parity.md. Fails
where one is above 1e-5.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT = Path(__file__).parents[1]
# The harness is that of the tests of the trainer, which run a part of this grid.
sys.path.insert(0, str(ROOT / "core" / "tests" / "trainer"))

from parity_grid import AXES, FEATURES, Distance, distance, product, save_model, train_both  # noqa: E402
from sections import machine, markdown_table, write_section  # noqa: E402

BAR = 1e-5
PAGE = ROOT / "docs" / "parity.md"
HEADS = ("loss", "gradient norm", "metrics", "weights")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument(
        "--only",
        default="",
        help="configurations whose name holds this text; `features` or `product` for a whole table",
    )
    arguments.add_argument("--docs", action="store_true", help="write the tables into docs/parity.md")
    asked = arguments.parse_args()
    tables = {"features": FEATURES, "product": product()}
    chosen = tables.get(asked.only, {**FEATURES, **product()})
    grid = {name: options for name, options in chosen.items() if asked.only in tables or asked.only in name}
    began = time.process_time()
    found = measure(grid)
    seconds = time.process_time() - began
    failed = [name for name, apart in found.items() if apart.worst > BAR]
    print(f"{len(found)} configurations, {len(failed)} above {BAR:g}, {seconds:.0f} CPU s", *failed, sep="\n")
    if asked.docs:
        write_page(found)
    return 1 if failed or not found else 0


def measure(grid: Mapping[str, dict[str, Any]]) -> dict[str, Distance]:
    """Trains each configuration with both, and prints a line for it."""
    warnings.simplefilter("ignore")
    import transformers

    transformers.logging.disable_progress_bar()
    found = {}
    print(f"{'configuration':70} {'loss':>8} {'grad':>8} {'metrics':>8} {'weights':>8}")
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder) / "policy")
        for name, options in grid.items():
            with contextlib.redirect_stdout(None):  # what both print at each step
                found[name] = apart = distance(*train_both(model, Path(folder) / "runs", options))
            print(f"{name:70} {' '.join(f'{value:8.1e}' for value in numbers(apart))} {apart.metric}", flush=True)
    return found


def numbers(apart: Distance) -> tuple[float, float, float, float]:
    return apart.loss, apart.grad_norm, apart.metrics, apart.weights


def write_page(found: dict[str, Distance]) -> None:
    """The sections of docs/parity.md of what was measured."""
    combined = {name: apart for name, apart in found.items() if name in product()}
    features = {name: apart for name, apart in found.items() if name in FEATURES}
    rows = [[name, *cells([apart])] for name, apart in features.items()]
    tables = {"product": product_table(combined), "features": markdown_table(["configuration", *HEADS], rows)}
    for section, runs in {"product": combined, "features": features}.items():
        if runs:
            above = sum(apart.worst > BAR for apart in runs.values())
            text = f"{len(runs)} configurations, {above} of them above {BAR:g}. {machine(1)}."
            write_section(section, f"{text}\n\n{tables[section]}", PAGE)
    print(f"{PAGE.name} is written")


def product_table(found: dict[str, Distance]) -> str:
    """A line for each loss, aggregation, scale and level; beta and LoRA are within, at their worst."""
    lines: dict[tuple[str, ...], list[Distance]] = {}
    for name, options in product().items():
        if name in found:
            lines.setdefault(tuple(options[axis] for axis in list(AXES)[:4]), []).append(found[name])
    rows = [[*key, str(len(runs)), *cells(runs)] for key, runs in lines.items()]
    heads = ["loss_type", "aggregation", "scale_rewards", "level", "runs", *HEADS]
    return markdown_table(heads, rows)


def cells(runs: Iterable[Distance]) -> list[str]:
    return [f"{max(column):.1e}" for column in zip(*map(numbers, runs), strict=True)]


if __name__ == "__main__":
    sys.exit(main())
