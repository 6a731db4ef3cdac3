"""The public cases and the package's own on the local sandbox, those marked dangerous too; options and leaks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from plaudit_code.corpus import cases
from plaudit_code.verify import Code
from plaudit_sandbox import SandboxRefused, open_sandbox

PUBLIC = [json.loads(line) for line in (Path(__file__).parent / "public_code_cases.jsonl").read_text().splitlines()]
DOUBLE = {"mode": "function", "entry_point": "f", "tests": [{"args": [n], "expect": 2 * n} for n in range(4)]}


async def scores(rows, **options):
    """All rows through one verifier, a few at a time, on one sandbox pool that is closed at the end."""
    verifier, gate = Code(**options), asyncio.Semaphore(4)

    async def one(row):
        async with gate:
            return (await verifier.verify(row["completion"], row["reference"])).score

    async with open_sandbox(verifier._backend, **verifier._backend_options):
        try:
            return await asyncio.gather(*map(one, rows))
        finally:
            await asyncio.gather(*(box.close() for box in verifier._boxes.values()))


@pytest.fixture(scope="module", autouse=True)
def isolation():
    async def probe():
        async with open_sandbox("local"):
            return

    try:
        asyncio.run(probe())
    except SandboxRefused as error:
        pytest.skip(f"this machine cannot isolate: {error}")


def wrong(rows, given):
    return [(row["id"], row["expected"]["score"], score) for row, score in zip(rows, given, strict=True)
            if score != row["expected"]["score"]]  # fmt: skip


async def test_public_cases():
    assert wrong(PUBLIC, await scores(PUBLIC)) == []


async def test_own_cases():
    rows = cases()
    assert wrong(rows, await scores(rows)) == []


@pytest.mark.docker
async def test_all_cases_on_docker(docker_options):
    rows = [*PUBLIC, *cases()]
    assert wrong(rows, await scores(rows, backend="docker", backend_options=docker_options)) == []


async def test_fraction_runs_every_test_and_says_which_failed():
    source = "```python\ndef f(n):\n    if n == 1:\n        import os\n        os._exit(0)\n    return 2 * n\n```"
    verdict = await Code(credit="fraction").verify(source, DOUBLE)
    assert verdict.score == 0.75
    assert verdict.metrics["pass_rate"] == 0.75
    assert verdict.columns["first_failing_test"] == 1
    assert verdict.columns["tests"] == 4
    assert (await Code().verify(source, DOUBLE)).score == 0.0


async def test_total_time_is_bounded():
    source = "```python\nimport time\ndef f(n):\n    time.sleep(0.4)\n    return 2 * n\n```"
    slow = await Code(total_timeout_s=1.0, repeats=1).verify(source, DOUBLE)
    assert slow.score == 0.0
    assert slow.metrics["timeouts"] == 1.0


async def test_stderr_and_compile_errors_are_reported():
    verdict = await Code().verify("```python\ndef f(n):\n    raise KeyError('here')\n```", DOUBLE)
    assert "KeyError" in verdict.columns["failure"]
    assert "here" in verdict.columns["failure"]
    verdict = await Code().verify("```python\ndef f(n) return n\n```", DOUBLE)
    assert verdict.metrics["compile_errors"] == 1.0


async def test_a_language_without_toolchain_abstains():
    reference = {"mode": "stdio", "language": "cobol", "tests": [{"stdin": "", "stdout": "1"}]}
    assert (await Code().verify("```cobol\nDISPLAY 1\n```", reference)).score is None


async def test_chance_must_pass_every_time():
    coin = "```python\nimport random\ndef f(n):\n    return 2 * n if random.random() < 0.8 else -1\n```"
    lucky = [(await Code(repeats=12).verify(coin, DOUBLE)).score for _ in range(4)]
    assert lucky == [0.0] * 4
