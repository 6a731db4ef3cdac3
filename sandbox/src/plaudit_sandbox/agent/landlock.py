"""Landlock: which files a process may touch, without any privilege (Linux 5.13+; network 6.7+, signals 6.12+)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

from . import syscalls

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_RIGHTS = (1 << 16) - 1
_SCOPE_SIGNAL = 2
_NETWORK_ABI, _SCOPE_ABI = 4, 6


def abi() -> int:
    """The kernel's Landlock version; 0 where it has none or it is switched off."""
    return max(0, syscalls.syscall(_CREATE, None, ctypes.c_size_t(0), 1))


def scopes_signals() -> bool:
    """Whether signals and abstract unix sockets can be confined too."""
    return abi() >= _SCOPE_ABI


def confine_signals() -> None:
    """Confine the signals of this process and its children to themselves, for good.

    Raises OSError if its parent can still be signalled afterwards: kill(-1) would then reach the user's every process.
    """
    attributes = struct.pack("QQQ", 0, 0, _SCOPE_SIGNAL)
    restrict(syscalls.check(syscalls.syscall(_CREATE, attributes, ctypes.c_size_t(24), 0), "landlock"))
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        return
    raise OSError("Landlock does not confine signals, though this kernel says so")


def make_ruleset(read_only: Sequence[str], writable: Sequence[str]) -> int:
    """A descriptor of rules: read and execute beneath `read_only`, anything beneath `writable`, nothing elsewhere.

    No TCP, and no signals or abstract sockets to processes outside, as far as the kernel's version goes. Paths that do
    not exist are left out. Raises OSError where Landlock is missing.
    """
    version = abi()
    rights = _RIGHTS_BY_ABI.get(version, _ALL_RIGHTS)
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _NETWORK_ABI else 8
    attributes = struct.pack("QQQ", rights, 3, 3)[:size]
    ruleset = syscalls.check(syscalls.syscall(_CREATE, attributes, ctypes.c_size_t(size), 0), "landlock")
    for path in read_only:
        _allow(ruleset, path, _READ & rights)
    for path in writable:
        _allow(ruleset, path, rights)
    return ruleset


def restrict(ruleset: int) -> None:
    """Apply the rules to this process and its children, for good."""
    syscalls.no_new_privileges()
    syscalls.check(syscalls.syscall(_RESTRICT, ruleset, 0), "landlock_restrict_self")


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _ON_FILES
        rule = struct.pack("=Qi", rights, handle)
        syscalls.check(syscalls.syscall(_ADD, ruleset, 1, rule, 0), f"landlock {path}")
    finally:
        os.close(handle)
