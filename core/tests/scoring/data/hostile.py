"""Rewards that misbehave, loaded by worker processes: the completion says how."""

import os
import signal
import sys
import threading
import time

from plaudit import Verdict, reward, verifier

_hoard = []


@verifier(timeout_s=3.0)
def judge(completion, reference):
    """1.0, after doing what the completion says."""
    act(completion)
    return 1.0


@reward(granularity="rollout", timeout_s=3.0, executor="process")
def function(completions, log_extra, log_metric):
    act(completions[0])
    log_extra("seen", [completions[0][:5]])
    log_metric("length", len(completions[0]))
    return [1.0]


@verifier(timeout_s=30.0)
def pid(completion, reference):
    return Verdict(1.0, extracted=str(os.getpid()))


@verifier(timeout_s=30.0)
def hashes(completion, reference):
    return Verdict(1.0, extracted=repr({completion, reference, "a", "b", "c"}))


@verifier(timeout_s=30.0, executor="process")
def alarmed(completion, reference):
    """Uses SIGALRM, which only a main thread can."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.alarm(30)
    signal.alarm(0)
    return threading.current_thread() is threading.main_thread()


@verifier(timeout_s=30.0)
def lazy(completion, reference):
    """Imports a module when it judges; 1.0 where that was there already."""
    known = "wave" in sys.modules
    import wave  # noqa: F401

    act(completion)
    return float(known)


def act(what):
    if what == "hang":
        time.sleep(3600)
    elif what == "tower":
        9**9**9**9
    elif what == "loop":
        while True:
            pass
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "exit":
        os._exit(3)
    elif what == "memory":
        bytearray(64 << 30)
    elif what == "leak":
        _hoard.append(bytearray(b"x") * (270 << 20))
    elif what == "print":
        print("x" * 5_000_000)
        sys.stderr.write("y" * 1_000_000)
    elif what == "fork":
        os.fork()
    elif what == "orphan":
        if os.fork() == 0:
            time.sleep(3600)
    elif what == "raise":
        raise ValueError("bad \ud800 text")
    elif what == "system_exit":
        raise SystemExit(1)
    elif what == "interrupt":
        raise KeyboardInterrupt
    elif what == "close_all":
        os.closerange(0, 256)
