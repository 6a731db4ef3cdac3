"""plaudit-math beside raw math-verify: milliseconds a pair on easy and on hard pairs, and 10,000 completions scored.

    python benchmarks/math_verifier.py            the pairs
    python benchmarks/math_verifier.py --score    and `plaudit score` of 10,000 completions against a plain loop

Both judge the same fresh pairs, so no cache of a whole verdict helps. Medians, means and their ratios are printed, in
CPU milliseconds of this process for the pairs and in wall seconds for the file.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Pair = tuple[str, str]
ROWS = 10_000


def easy_pairs(count: int, seed: int) -> list[Pair]:
    """Integers, fractions, decimals, surds, pairs, assignments: what school data sets hold; half of them wrong."""
    source = random.Random(seed)
    pairs = []
    for place in range(count):
        a, b = source.randint(2, 999), source.randint(2, 99)
        shapes = [
            (f"{a}", f"${a}$"),
            (rf"\frac{{{a}}}{{{b}}}", rf"$\frac{{{2 * a}}}{{{2 * b}}}$"),
            (f"{a / 8}", rf"$\frac{{{a}}}{{8}}$"),
            (rf"{a}\sqrt{{{b}}}", rf"${a}\sqrt{{{b}}}$"),
            (f"({a}, {b})", f"$({a},{b})$"),
            (f"x = {a}", f"${a}$"),
        ]
        answer, gold = shapes[place % len(shapes)]
        wrong = f"{a + 1}" if source.random() < 0.5 else answer
        pairs.append((rf"First we find {b}. So the answer is \boxed{{{wrong}}}.", gold))
    return pairs


def hard_pairs() -> list[Pair]:
    """The package's own cases, but those that hang math-verify or hold huge texts."""
    from plaudit_math.corpus import cases

    left_out = {"hangs", "slow_extraction", "tiny_values", "injection"}
    rows = [case for case in cases() if case["family"] not in left_out and len(case["completion"]) < 1000]
    return [(case["completion"], case["gold"]) for case in rows][::4]


def ours(completion: str, gold: str) -> Any:
    from plaudit_math import verify

    return verify(completion, gold).score


def raw(completion: str, gold: str) -> Any:
    from math_verify import parse, verify

    return verify(parse(gold), parse(completion))


def milliseconds(judge: Callable[[str, str], Any], pairs: list[Pair]) -> list[float]:
    for pair in pairs[:12]:
        judge(*pair)
    taken = []
    for completion, gold in pairs[12:]:
        began = time.process_time()
        judge(completion, gold)
        taken.append((time.process_time() - began) * 1e3)
    return taken


def compare(name: str, pairs: list[Pair]) -> None:
    mine, theirs = milliseconds(ours, pairs), milliseconds(raw, pairs)
    for label, figure in (("p50", statistics.median), ("mean", statistics.fmean)):
        first, second = figure(mine), figure(theirs)
        print(
            f"{name:5} {label:5} plaudit-math {first:8.3f} ms   math-verify {second:8.3f} ms   × {second / first:.1f}"
        )


def score_file() -> None:
    """Wall seconds of the command line against those of a loop, on the same 10,000 rows."""
    hard = hard_pairs()
    pairs = easy_pairs(ROWS * 9 // 10, 1) + [hard[place % len(hard)] for place in range(ROWS // 10)]
    random.Random(2).shuffle(pairs)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "rows.jsonl")
        data.write_text("".join(json.dumps({"completion": c, "answer": g}) + "\n" for c, g in pairs), "utf-8")
        began = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "plaudit",
            "score",
            "math",
            "--data",
            str(data),
            "--output",
            f"{folder}/out.jsonl",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        mine = time.monotonic() - began
    began = time.monotonic()
    for pair in pairs[: ROWS // 10]:
        raw(*pair)
    theirs = (time.monotonic() - began) * 10
    print(f"{ROWS} completions: plaudit score {mine:.1f} s, loop over math-verify {theirs:.1f} s (from a tenth)")
    print(f"ratio × {theirs / mine:.1f}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--score", action="store_true", help="score 10,000 completions as well")
    chosen = arguments.parse_args()
    compare("easy", easy_pairs(600, 0))
    compare("hard", hard_pairs())
    if chosen.score:
        score_file()


if __name__ == "__main__":
    main()
