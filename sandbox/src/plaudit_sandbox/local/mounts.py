"""What a slot sees of the file system: a read-only root of bind mounts, and a /tmp of its own for each run."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence

from plaudit_sandbox.agent.syscalls import check, libc, syscall

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}[os.uname().machine] if os.uname().machine in ("x86_64", "aarch64") else -1
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
_SETTINGS = (
    "/etc/ssl/openssl.cnf",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/java",
)
_KEPT = "/kept"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKS = {
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
    "dev/shm": "/tmp",
    "var/tmp": "/tmp",
}
_FILES = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000:sandbox:/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\nsandbox:x:1000:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def visible_paths() -> list[str]:
    """The directories that programs may read and execute: the system's, and those of this Python."""
    found = list(_SYSTEM)
    for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix):
        for path in (prefix, os.path.realpath(prefix)):
            if not any(path == known or path.startswith(known + "/") for known in found):
                found.append(path)
    return found


def settings_paths() -> list[str]:
    """The few files of /etc that dynamic linking, alternatives and local time need."""
    return list(_SETTINGS)


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError."""
    result = libc.mount(
        source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), data.encode() or None
    )
    check(result, f"mount {target}")


def unmount(target: str) -> None:
    """Detach the topmost mount at `target`. Raises OSError."""
    check(libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def enter_root(base: str, paths: Sequence[str]) -> None:
    """Make a new root of `paths`, read-only, over the directory `base`, and leave the old one behind.

    For a process in a mount namespace of its own. /proc is the old root's until it is mounted anew.
    """
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    hidden = beneath_tmp(paths)
    for path in (*paths, *_SETTINGS):
        _show(path, f"{base}{_KEPT}{path}" if path in hidden else base + path)
    for name in ("tmp", "proc", "dev", "old", "etc", "var"):
        os.makedirs(f"{base}/{name}", exist_ok=True)
    for name in _DEVICES:
        _touch(f"{base}/dev/{name}")
        mount(f"/dev/{name}", f"{base}/dev/{name}", None, MS_BIND)
    for name, target in _LINKS.items():
        os.symlink(target, f"{base}/{name}")
    for name, text in _FILES.items():
        with open(f"{base}/{name}", "w") as file:
            file.write(text)
    mount("/proc", f"{base}/proc", None, MS_BIND | MS_REC)
    os.chdir(base)
    check(syscall(_PIVOT_ROOT, b".", b"old"), "pivot_root")
    os.chdir("/")
    unmount("/old")
    os.rmdir("/old")


def beneath_tmp(paths: Sequence[str]) -> list[str]:
    """Those of `paths` that a run's own /tmp hides, such as a Python that is installed in /tmp."""
    return [path for path in paths if path.startswith("/tmp/") and os.path.isdir(path)]


def mount_tmp(options: str, kept: Sequence[str]) -> None:
    """A fresh /tmp in memory, and in it the directories `kept` that it would hide. Unmounting it takes them along."""
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options)
    for path in kept:
        os.makedirs(path, exist_ok=True)
        mount(_KEPT + path, path, None, MS_BIND | MS_REC)


def seal_root() -> None:
    """Make the root's own directory read-only."""
    mount("none", "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _show(path: str, target: str) -> None:
    if os.path.islink(path):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    elif os.path.exists(path):
        _touch(target)
    else:
        return
    mount(path, target, None, MS_BIND | MS_REC)
    # Unlike a remount, this reaches mounts beneath the path too (Linux 5.12).
    attributes = struct.pack("QQQQ", MS_RDONLY | MS_NOSUID | MS_NODEV, 0, 0, 0)
    result = syscall(_MOUNT_SETATTR, _AT_FDCWD, target.encode(), _AT_RECURSIVE, attributes, ctypes.c_size_t(32))
    check(result, f"mount_setattr {target}")


def _touch(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w"):
        pass
