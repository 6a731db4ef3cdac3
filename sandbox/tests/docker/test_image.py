"""The minimal image: what is in it, what is not, and that the same files give the same image."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from plaudit_sandbox import SandboxError, SandboxRefused, open_sandbox

pytest.importorskip("docker")
from plaudit_sandbox.docker import image as images
from plaudit_sandbox.docker.rootfs import collect, write_tar


@pytest.fixture(scope="module")
def files() -> dict[str, Path]:
    return collect()


def packed(files: dict[str, Path]) -> bytes:
    stream = io.BytesIO()
    write_tar(stream, files)
    return stream.getvalue()


def test_the_same_files_give_the_same_bytes(files: dict[str, Path]) -> None:
    few = {name: path for name, path in files.items() if "/lib/python" not in name}
    assert packed(few) == packed(dict(reversed(few.items())))


def test_it_holds_what_programs_need_and_nothing_of_this_machine(files: dict[str, Path]) -> None:
    few = {name: path for name, path in files.items() if "/lib/python" not in name}
    with tarfile.open(fileobj=io.BytesIO(packed(few))) as tar:
        entries = {entry.name: entry for entry in tar}
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    assert {"usr/bin/bash", "usr/bin/sort", "bin", "tmp", f"usr/local/bin/{version}"} <= set(entries)
    assert f"usr/local/lib/{version}/json/__init__.py" in files
    assert entries["tmp"].mode == 0o1777
    assert all(entry.mtime == entry.uid == entry.gid == 0 for entry in entries.values())
    assert not any(entry.isreg() and entry.mode & 0o6000 for entry in entries.values())
    assert not [name for name in files if "site-packages" in name or name.startswith(("home", "root", "opt"))]
    assert sys.base_prefix.lstrip("/") in ("usr", "usr/local") or not any(
        name.startswith(sys.base_prefix.lstrip("/")) for name in entries
    )


def test_a_program_that_is_not_here() -> None:
    with pytest.raises(SandboxError, match="'no-such-program' is not installed on this machine"):
        collect(["no-such-program"])


@pytest.mark.docker
def test_building_twice_gives_one_image(
    docker_options: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--base-url", docker_options["base_url"]] if "base_url" in docker_options else []
    monkeypatch.setattr(sys, "argv", ["image", *arguments])
    assert images.main() == 0
    assert capsys.readouterr().out == f"{docker_options['image']}\n"


@pytest.mark.docker
async def test_an_image_that_is_not_there(docker_options: dict[str, Any]) -> None:
    with pytest.raises(SandboxRefused, match=r"no image 'no-such-image:1'.*docker pull no-such-image:1.*without a reg"):
        async with open_sandbox("docker", **{**docker_options, "image": "no-such-image:1"}):
            pass


def test_no_engine_for_the_command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["image", "--base-url", "unix:///nowhere/docker.sock"])
    assert images.main() == 1
    assert "no Docker engine answers at unix:///nowhere/docker.sock" in capsys.readouterr().err
