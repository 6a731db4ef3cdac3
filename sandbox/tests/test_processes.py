"""Ending what a slot leaves, in a process of its own, which is the subreaper that a nursery is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import plaudit_sandbox
import pytest
from plaudit_sandbox.agent import processes

PROGRAM = """
import os, sys, time
sys.path.insert(0, {folder!r})
from plaudit_sandbox.agent import processes, syscalls

def no_look_at_everyone():
    raise AssertionError("looked at every process of the machine")

if {lists}:
    processes._families = no_look_at_everyone
else:
    processes._children_are_listed = lambda: False
syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
read, write = os.pipe()

def tree(depth):
    pid = os.fork()
    if pid == 0:
        if depth:
            tree(depth - 1)
        os.write(write, b"%d " % os.getpid())
        time.sleep(60)
    return pid

kept = tree(0)
tree(3)
parent = tree(1)
pids = b""
while pids.count(b" ") < 7:
    pids += os.read(read, 100)
os.kill(parent, 9)  # its child is left to the subreaper
os.waitpid(parent, 0)
processes.end_strays({{kept}})
left = [int(pid) for pid in pids.split() if os.path.exists("/proc/" + pid.decode())]
print(left == [kept])
os.kill(kept, 9)
"""


@pytest.mark.parametrize("lists", [True, False])
def test_strays_end_with_all_beneath_them_and_no_one_else_does(lists: bool) -> None:
    """`lists`: whether the kernel lists children; then no other process is looked at, so many slots end quickly."""
    if lists and not processes._children_are_listed():
        pytest.skip("this kernel does not list a process's children")
    folder = str(Path(plaudit_sandbox.__file__).parents[1])
    program = PROGRAM.format(folder=folder, lists=lists)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr[-2000:]
