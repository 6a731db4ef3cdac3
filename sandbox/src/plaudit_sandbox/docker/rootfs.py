"""The files of a minimal image, taken from this machine: its Python, a shell, small programs and their libraries.

Nothing of this machine's settings, users or installed packages goes in, and no path that names where its Python lies.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from plaudit_sandbox.errors import SandboxError

PROGRAMS = tuple(
    "bash sh awk base64 basename bc cat chmod cmp comm cp cut date diff dirname du echo env expr factor find fold "
    "grep egrep gzip head join ln ls md5sum mkdir mktemp mv nl od paste printf pwd rev rm rmdir sed seq sha256sum shuf "
    "sleep sort split stat tac tail tar tee test timeout touch tr true false uniq wc which xargs yes [".split()
)
"""What the minimal image holds besides Python, where this machine has it; bash and sh must be there."""

_LEFT_OUT = {
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "idle_test",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
}
_LIBRARY_ROOTS = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64")
_TEXTS: Mapping[str, str] = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\nnobody:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def collect(programs: Sequence[str] = PROGRAMS) -> dict[str, Path]:
    """Path in the image (without the leading slash) -> the file here. Raises SandboxError if a program is missing."""
    found = _python()
    for name in programs:
        path = shutil.which(name)
        if path is not None:
            found[f"usr/bin/{name}"] = Path(os.path.realpath(path))
        elif programs is not PROGRAMS or name in ("bash", "sh"):
            raise SandboxError(f"{name!r} is not installed on this machine, so that it cannot go into the image")
    binaries = [path for path in found.values() if _is_elf(path)]
    found.update(_libraries(binaries))
    return found


def write_tar(stream: io.BufferedIOBase, files: Mapping[str, Path]) -> None:
    """Write the image's root as a tar, the same bytes for the same files: no owner, no time, sorted by path."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    links = {"bin": "usr/bin", "usr/local/bin/python3": f"python{version}", "usr/local/bin/python": f"python{version}"}
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for folder in _folders([*files, *_TEXTS, *links]):
            tar.addfile(_entry(folder, tarfile.DIRTYPE, 0o1777 if folder in ("tmp", "var/tmp") else 0o755))
        for path, target in sorted(links.items()):
            entry = _entry(path, tarfile.SYMTYPE, 0o777)
            entry.linkname = target
            tar.addfile(entry)
        for path, text in sorted(_TEXTS.items()):
            _add(tar, path, 0o644, text.encode())
        for path, source in sorted(files.items()):
            _add(tar, path, 0o755 if os.access(source, os.X_OK) else 0o644, source.read_bytes())


def _python() -> dict[str, Path]:
    """This Python beneath usr/local: its interpreter, and the standard library without tests and installed packages."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = {f"usr/local/bin/python{version}": Path(os.path.realpath(sys.executable))}
    for library in {sysconfig.get_path(name, vars=_base()) for name in ("stdlib", "platstdlib")}:
        root = Path(library)
        for parent, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.startswith("config-")]
            inside = Path(parent).relative_to(root)
            for name in names:
                if (Path(parent) / name).is_file() and not name.endswith((".a", ".opt-1.pyc", ".opt-2.pyc")):
                    found[f"usr/local/lib/python{version}/{inside / name}"] = Path(parent) / name
    return found


def _base() -> dict[str, str]:
    """So that a virtual environment is seen through."""
    return {"platbase": sys.base_exec_prefix, "base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix}


def _libraries(binaries: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """The shared libraries that these files load, and the loader; each where the loader looks without settings."""
    paths: dict[str, Path] = {}
    for start in range(0, len(binaries), 50):
        listed = subprocess.run(["ldd", *map(str, binaries[start : start + 50])], capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            words = line.split()
            path = words[2] if len(words) > 2 and words[1] == "=>" else words[0] if words else ""
            if path.startswith("/") and not path.endswith(":"):
                paths[path] = Path(os.path.realpath(path))
    system = next((os.path.dirname(path) for path in paths if os.path.basename(path).startswith("libc.so")), "/usr/lib")
    for path, source in paths.items():
        known = any(path.startswith(root + "/") for root in _LIBRARY_ROOTS)
        yield (path if known else f"{system}/{os.path.basename(path)}").lstrip("/"), source


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _folders(paths: Sequence[str]) -> list[str]:
    found = {"tmp", "var", "var/tmp", "root", "proc", "sys", "dev", "etc"}
    for path in paths:
        found.update(str(parent) for parent in Path(path).parents if str(parent) != ".")
    return sorted(found)


def _entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = kind, mode
    return entry


def _add(tar: tarfile.TarFile, path: str, mode: int, content: bytes) -> None:
    entry = _entry(path, tarfile.REGTYPE, mode)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
