"""Rewards for the tests of the server and the cache; each call leaves a line in the file that SERVED_CALLS names."""

import os

from plaudit import Verdict, reward, verifier


def note(text):
    path = os.environ.get("SERVED_CALLS")
    if path:
        with open(path, "a") as file:
            file.write(text + "\n")


@verifier
def equal(completion, reference, unit="", *, strict=False):
    """Whether the completion is the reference."""
    note(completion)
    if completion == "raise":
        raise ValueError("boom")
    if completion == "abstain":
        return Verdict.abstain("unreadable")
    same = completion == reference if strict else completion.lower() == str(reference).lower()
    return Verdict(
        float(same), "compared", extracted=completion, metrics={"length": len(completion)}, columns={"u": unit}
    )


def lengths(prompts, completions, completion_ids, log_extra, log_metric, **columns):
    """A batch reward: the length relative to the longest."""
    note(str(len(completions)))
    log_extra("seen", [f"{p}|{sorted(columns)}" for p in prompts])
    log_metric("batch", len(completions))
    longest = max(map(len, completions))
    return [len(c) / longest if c != "none" else None for c in completions]


@reward(granularity="rollout", deterministic=True)
async def ids(completions, completion_ids):
    note(str(completion_ids[0]))
    return [float(sum(completion_ids[0]))]


def live(completions, environments):
    return [1.0] * len(completions)
