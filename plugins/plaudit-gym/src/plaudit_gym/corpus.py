"""The audit cases that ship with the package."""

from functools import partial

from plaudit import read_cases

cases = partial(read_cases, "plaudit_gym", "data/puzzle_cases.jsonl")
