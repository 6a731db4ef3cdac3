"""The audit cases that ship with the package; each verifier's are those of the kind that bears its name."""

from functools import partial

from plaudit import read_cases

cases = partial(read_cases, "plaudit_match", "data/match_cases.jsonl")
