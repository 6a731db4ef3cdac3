"""The killable worker: bounded in time from any thread, replaced when hung, safe after fork, gone at exit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
from plaudit_math import verify, worker

INTEGRAL = r"\int_0^1 3x^2\,dx"
HANGING = r"\sum_{k=1}^{10^{9}}\frac{1}{k^3+k}"


def test_symbolic_pairs_are_told_apart() -> None:
    assert verify(r"\boxed{1}", INTEGRAL).score == 1.0
    assert verify(r"\boxed{2}", INTEGRAL).score == 0.0
    assert verify(rf"\boxed{{{INTEGRAL}}}", "1").score == 1.0


def test_a_hang_is_bounded_in_threads_and_the_worker_is_replaced() -> None:
    seconds: list[float] = []

    def judge() -> None:
        began = time.monotonic()
        assert verify(rf"\boxed{{{HANGING}}}", "5", timeout_s=1.0).score == 0.0
        seconds.append(time.monotonic() - began)

    threads = [threading.Thread(target=judge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seconds) == 4
    assert max(seconds) < 4
    assert verify(r"\boxed{1}", INTEGRAL).score == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "9^{9^{9^{9}}}", "(10^{7})!", "((5!)!)!", r"\binom{10^9}{5\cdot 10^8}", "7^{123456789}", "e^{e^{e^{e^{e}}}}",
        r"\frac{1}{9^{9^{9}}}", "(" * 300 + "4" + ")" * 300, r"\sqrt{" * 120 + "4" + "}" * 120, r"\sin(10^{10^{10}})",
        "x^{" * 100 + "2" + "}" * 100, "1+" * 3000 + "1", "9" * 100_000, "!" * 5000, "5" + "!" * 300, "(x+1)" * 1000,
        r"\frac{1}{" * 200 + "2" + "}" * 200, r"\begin{pmatrix}" + r"1&2\\" * 300 + r"\end{pmatrix}", "-" * 5000 + "3",
        ",".join(map(str, range(3000))), r"\pm" * 50 + "3", r"\log(" * 100 + "2" + ")" * 100,
        r"\begin{vmatrix}" + r"\\".join("&".join("1" * 8) for _ in range(8)) + r"\end{vmatrix}",
    ],
)  # fmt: skip
def test_hostile_answers_are_cheap(answer: str) -> None:
    began = time.monotonic()
    assert verify(rf"\boxed{{{answer}}}", "5").score == 0.0
    assert verify(r"\boxed{5}", answer).score in (0.0, None)
    assert time.monotonic() - began < 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_its_own_worker() -> None:
    assert verify(r"\boxed{1}", INTEGRAL).score == 1.0
    code = (
        "import os, sys\nfrom plaudit_math import verify\n"
        f"gold = r'{INTEGRAL}'\n"
        "assert verify(r'\\boxed{1}', gold).score == 1.0\n"
        "child = os.fork()\n"
        "ok = verify(r'\\boxed{1}', gold).score == 1.0\n"
        "if child == 0:\n    from plaudit_math import worker\n    worker.stop_workers()\n    os._exit(0 if ok else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or (0 if ok else 2))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_no_process_is_left_at_exit() -> None:
    code = (
        "from plaudit_math import verify, worker\n"
        f"verify(r'\\boxed{{1}}', r'{INTEGRAL}')\n"
        "print(worker._pool.free[0].process.pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_workers_can_be_stopped() -> None:
    assert verify(r"\boxed{1}", INTEGRAL).score == 1.0
    worker.stop_workers()
    assert verify(r"\boxed{1}", INTEGRAL).score == 1.0


def test_easy_pairs_import_no_symbolic_mathematics() -> None:
    code = (
        "import sys\nfrom plaudit_math import verify\n"
        "for answer, gold in [('42', '42'), (r'\\frac34', '0.75'), ('(1,2)', '(1,2)'), ('7', '8'), ('x=3', '3')]:\n"
        "    verify(rf'\\boxed{{{answer}}}', gold)\n"
        "print([name for name in ('sympy', 'mpmath', 'math_verify', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
