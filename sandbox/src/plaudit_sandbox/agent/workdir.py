"""The working directory of a run: files put in, files taken out, everything wiped."""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
from collections.abc import Iterator, Sequence

Buffer = memoryview
_MAX_ENTRIES = 10_000


def place(files: Sequence[tuple[str, Buffer]]) -> None:
    """Write each (relative path, content) beneath the current directory. Raises ValueError for a path outside it."""
    for path, content in files:
        parts = split(path)
        if len(parts) > 1:
            os.makedirs(os.path.join(*parts[:-1]), exist_ok=True)
        descriptor = os.open(os.path.join(*parts), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        while content:
            content = content[os.write(descriptor, content) :]
        os.close(descriptor)


def split(path: str) -> list[str]:
    """The components of a relative path. Raises ValueError where it is absolute, empty or climbs."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or not parts or ".." in parts or "\0" in path:
        raise ValueError(f"{path!r}: expected a path inside the working directory, such as 'data/in.txt'")
    return parts


def collect(root: int, patterns: Sequence[str], *, max_bytes: int) -> list[tuple[str, bytearray]]:
    """The regular files beneath the directory `root` whose path matches a pattern, `max_bytes` in all.

    The program owns these names, so no symbolic link is followed and nothing but a regular file is opened.
    """
    found: list[tuple[str, bytearray]] = []
    wanted = ["/".join(split(pattern)) for pattern in patterns]
    for path, directory, name in _walk(root, ""):
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in wanted):
            content = _read_regular(directory, name, max_bytes)
            if content is not None:
                max_bytes -= len(content)
                found.append((path, content))
    return found


def wipe(path: str) -> None:
    """Delete everything in the directory `path`, whatever the modes that the program left.

    Raises OSError if anything stays.
    """
    directories = False
    for entry in list(os.scandir(path)):
        if entry.is_dir(follow_symlinks=False):
            directories = True
            shutil.rmtree(entry.path, onerror=_open_up)
        else:
            os.unlink(entry.path)
    if directories and (left := os.listdir(path)):
        raise OSError(f"{path}: cannot delete {left[0]!r}")


def used_bytes(path: str) -> int:
    """Disk space beneath `path`, in bytes. Counts what it can see; the program may be changing it."""
    total = 0
    for parent, directories, names in os.walk(path, onerror=None):
        for name in [*directories, *names]:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except OSError:
                continue
    return total


def _walk(directory: int, prefix: str, depth: int = 0) -> Iterator[tuple[str, int, str]]:
    entries = 0
    for name in sorted(os.listdir(directory)):
        entries += 1
        if entries > _MAX_ENTRIES or depth > 32:
            return
        try:
            is_directory = stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
            if not is_directory:
                yield prefix + name, directory, name
                continue
            child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        except OSError:
            continue
        try:
            yield from _walk(child, f"{prefix}{name}/", depth + 1)
        finally:
            os.close(child)


def _read_regular(directory: int, name: str, max_bytes: int) -> bytearray | None:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=directory)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            return None
        return bytearray(file.read(max_bytes))


def _open_up(function: object, path: str, error: object) -> None:
    """What lies in a directory without its owner's bits cannot be deleted: give them back and try again."""
    closed = [each for each in (os.path.dirname(path), path) if _is_closed(each)]
    for each in closed:
        os.chmod(each, 0o700)
    if closed and os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, onerror=_open_up)
    elif closed and os.path.lexists(path):
        os.unlink(path)


def _is_closed(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & 0o700 != 0o700
