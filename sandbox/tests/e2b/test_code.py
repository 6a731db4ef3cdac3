"""The code verifier over e2b: the public cases, but for those marked dangerous, which the stand-in must not run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from plaudit_sandbox import open_sandbox
from standin import Cloud

verify = pytest.importorskip("plaudit_code.verify")
CASES = Path(__file__).parents[3] / "verifiers" / "plaudit-code" / "tests" / "public_code_cases.jsonl"
OPTIONS = {"creates_per_s": 1000.0, "max_sandboxes": 8, "max_sessions": 0}


def rows() -> list[dict[str, Any]]:
    """The cases, those that need a machine of their own left out."""
    return [row for row in map(json.loads, CASES.read_text().splitlines()) if not row["danger"]]


async def score(chosen: list[dict[str, Any]], verifier: Any) -> list[tuple[str, float | None]]:
    """(id, score) of each, a few at a time on one pool."""
    gate = asyncio.Semaphore(4)

    async def one(row: dict[str, Any]) -> tuple[str, float | None]:
        async with gate:
            return row["id"], (await verifier.verify(row["completion"], row["reference"])).score

    async with open_sandbox("e2b", **OPTIONS):
        scores = await asyncio.gather(*map(one, chosen))
        for box in verifier._boxes.values():  # else they stay open for the life of this process
            await box.close()
    return scores


@pytest.mark.skipif(not CASES.exists(), reason="the cases of plaudit-code are not beside this distribution")
async def test_public_cases(cloud: Cloud) -> None:
    chosen = rows()
    assert len(chosen) > 50
    verifier = verify.Code(backend="e2b", backend_options=OPTIONS)
    assert await score(chosen, verifier) == [(row["id"], row["expected"]["score"]) for row in chosen]
    assert cloud.most_alive <= 8


@pytest.mark.skipif(not CASES.exists(), reason="the cases of plaudit-code are not beside this distribution")
async def test_output_tests_need_no_agent(cloud: Cloud) -> None:
    cloud.stdin = False
    chosen = [row for row in rows() if row["reference"]["mode"] == "stdio"][:8]
    verifier = verify.Code(backend="e2b", backend_options=OPTIONS)
    assert await score(chosen, verifier) == [(row["id"], row["expected"]["score"]) for row in chosen]
