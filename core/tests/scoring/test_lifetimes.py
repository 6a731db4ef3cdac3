"""Sessions that are left, scorers that are forgotten, programs that end or fork: nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time

import pytest
from plaudit import ContractError, UsageError, reward
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import reward_specs
from plaudit.types import Rollout, Row

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_submitting_wrongly():
    row = Row("p")
    with Scorer(reward_specs(lambda completions: [1.0] * len(completions))) as scorer:
        session = scorer.open([row, row], num_generations=2)
        session.submit(Rollout(0, row, "x"))
        for index in (0, 2, -1):
            with pytest.raises(ContractError, match=f"rollout {index} of 2"):
                session.submit(Rollout(index, row, "x"))
        with pytest.raises(ContractError, match="1 of 2 rollouts were never submitted"):
            session.result()
        session.cancel()
    with pytest.raises(UsageError, match="closed"):
        scorer.open([row], num_generations=1)


def test_leaving_a_session_early_stops_its_work(hostile):
    row = Row("p", {"answer": "x"})

    @reward(granularity="rollout")
    async def endless(completions):
        await asyncio.sleep(3600)

    with Scorer(reward_specs([endless, hostile("judge")])) as scorer:
        with scorer.open([row], num_generations=1) as session:
            session.submit(Rollout(0, row, "hang"))
        with pytest.raises(ContractError, match="cancelled"):
            session.result()


def test_a_scorer_that_is_forgotten_ends_its_workers(hostile):
    """No close, no with: the fixture proves that nothing is left."""
    row = Row("p", {"answer": "x"})
    scorer = Scorer(reward_specs([hostile("judge"), lambda completions: [1.0]]))
    session = scorer.open([row], num_generations=1)
    session.submit(Rollout(0, row, "x"))
    assert session.result().scores == ((1.0, 1.0),)
    del scorer, session
    gc.collect()


def test_a_program_that_never_closes_ends(hostile, tmp_path):
    """With a call that hangs on a thread and one in a worker, the interpreter still ends, and so does the worker."""
    code = (
        "import time\nfrom plaudit import reward\nfrom plaudit.scoring.scorer import Scorer\n"
        "from plaudit.scoring.spec import reward_specs\nfrom plaudit.types import Rollout, Row\n"
        "hang = reward(granularity='rollout')(lambda completions: time.sleep(600))\n"
        f"scorer = Scorer(reward_specs([hang, {hostile('pid')!r}]))\nrow = Row('p', {{'answer': 'x'}})\n"
        "session = scorer.open([row], num_generations=1)\nsession.submit(Rollout(0, row, 'x'))\ntime.sleep(1)\n"
    )
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert time.monotonic() - started < 30


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_that_exits_leaves_the_parents_workers_alone(hostile):
    row = Row("p", {"answer": "x"})
    with Scorer(reward_specs(hostile("pid")), processes=1) as scorer:

        def worker() -> str:
            session = scorer.open([row], num_generations=1)
            session.submit(Rollout(0, row, "x"))
            return session.result().columns["pid/extracted"][0]

        before = worker()
        child = os.fork()
        if child == 0:
            scorer._end()
            os._exit(0)
        os.waitpid(child, 0)
        assert worker() == before
