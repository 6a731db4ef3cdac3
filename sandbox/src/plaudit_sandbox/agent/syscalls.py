"""System calls that Python does not wrap, through ctypes."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
MACHINE = platform.machine()

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
_CAPABILITY_HEADER = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()


def check(result: int, what: str) -> int:
    """`result`, or the OSError that it stands for."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: Any) -> int:
    """A raw system call; -1 with errno set on failure."""
    return int(libc.syscall(ctypes.c_long(number), *arguments))


def prctl(option: int, *arguments: Any) -> int:
    """prctl(2) with its five arguments filled up with zeros."""
    values = [*arguments, *[0] * (4 - len(arguments))]
    return int(libc.prctl(option, *[ctypes.c_ulong(v) if isinstance(v, int) else v for v in values]))


def no_new_privileges() -> None:
    """From here on no exec grants anything (setuid files, file capabilities)."""
    check(prctl(PR_SET_NO_NEW_PRIVS, 1), "no_new_privs")


def die_with_parent(signal_number: int = 9) -> None:
    """Ask for a signal when the thread that forked this process ends. Cleared by a change of uid."""
    check(prctl(PR_SET_PDEATHSIG, signal_number), "pdeathsig")


def drop_bounding_set(*, keep_reading: bool = False) -> None:
    """No exec of this process or its children can give them a capability that they have not.

    keep_reading: but for those that `keep_only_reading` is to pass on.
    """
    for capability in range(_LAST_CAPABILITY + 1):
        if keep_reading and capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            continue
        if prctl(PR_CAPBSET_DROP, capability) < 0:
            break
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)


def drop_capabilities() -> None:
    """Give up every capability that this process has."""
    check(libc.capset(_CAPABILITY_HEADER, _NO_CAPABILITIES), "capset")


def change_user(uid: int, *, keep_reading: bool) -> None:
    """Become `uid` for good. keep_reading: keep the right to read and enter what belongs to others.

    For a Python that lies beneath a closed directory such as /root; Landlock bounds what that right reaches.
    """
    if keep_reading:
        check(prctl(_PR_SET_KEEPCAPS, 1), "keepcaps")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def keep_only_reading() -> None:
    """After `change_user(keep_reading=True)`: drop every capability but that one, which programs inherit."""
    have = (ctypes.c_uint32 * 6)()
    check(libc.capget(_CAPABILITY_HEADER, have), "capget")
    kept = next((each for each in (_CAP_DAC_READ_SEARCH, _CAP_DAC_OVERRIDE) if have[1] & 1 << each), None)
    if kept is None:
        drop_capabilities()
        return
    bit = 1 << kept
    check(libc.capset(_CAPABILITY_HEADER, (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)), "capset")
    check(prctl(PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, kept), "ambient capability")
