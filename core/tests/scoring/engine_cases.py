"""The cases of data/engine_cases.jsonl, and the functions that answer them by identifier."""

from __future__ import annotations

import json
from pathlib import Path

CASES = [json.loads(line) for line in (Path(__file__).parent / "data" / "engine_cases.jsonl").read_text().splitlines()]
ELSEWHERE = {
    "engine-threads-02": "tests/test_engine_cases.py; here test_faults' tower in a worker",
    "engine-host-05": "plaudit-math's test_properties; here test_faults' leaking worker",
    "engine-cache-03": "tests/test_engine_cases.py",
    "engine-scope-01": "tests/test_engine_cases.py",
    "engine-scope-03": "tests/test_engine_cases.py",
    "engine-scope-06": "tests/test_engine_cases.py",
    "engine-files-01": "tests/bridges/test_harbor.py",
    "engine-files-02": "tests/bridges/test_harbor.py",
}
TESTS = {}


def case(identifier):
    def add(function):
        TESTS[identifier] = function
        return function

    return add
