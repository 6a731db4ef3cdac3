"""Images for the docker back end, and a minimal one that is built without a registry.

    python -m plaudit_sandbox.docker.image [--base-url URL] [--tag NAME] [--program NAME …]

prints the image's name. It holds this machine's Python without installed packages, a shell and small programs. Any
other image with a python3 of 3.10 or later does as well.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, BinaryIO

from plaudit_sandbox.docker.rootfs import PROGRAMS, collect, write_tar
from plaudit_sandbox.errors import InfrastructureFailure, SandboxError, SandboxRefused

REPOSITORY = "plaudit-sandbox"
_OFFICIAL = tuple(f"python:{version}-slim" for version in ("3.13", "3.12", "3.14", "3.11", "3.10", "3"))
_CHANGES = ["ENV PATH=/usr/local/bin:/usr/bin:/bin", "ENV LANG=C.UTF-8", "WORKDIR /tmp", 'CMD ["python3"]']


def find_image(client: Any, image: str | None) -> str:
    """`image` if this engine has it; None: the first that it has of python:3.x-slim and the minimal image.

    Nothing is pulled. Raises SandboxRefused where there is none.
    """
    names: list[str] = [name for each in client.images.list() for name in each.tags]
    if image is not None:
        if image in names or f"{image}:latest" in names or _has(client, image):
            return image
        raise SandboxRefused(f"this Docker engine has no image {image!r}: `docker pull {image}`, or {_BUILD}")
    minimal = sorted(name for name in names if name.startswith(f"{REPOSITORY}:"))
    for name in (*_OFFICIAL, *minimal):
        if name in names:
            return name
    raise SandboxRefused(f"this Docker engine has no image with Python: `docker pull {_OFFICIAL[0]}`, or {_BUILD}")


_BUILD = "build one without a registry: `python -m plaudit_sandbox.docker.image`"


def build_image(client: Any, *, tag: str | None = None, programs: Sequence[str] = PROGRAMS) -> str:
    """Import the minimal image, unless the engine has it already, and return its name.

    The default tag is a digest of the contents, so that the same machine gives the same name. Raises SandboxError if a
    program of `programs` is missing here, InfrastructureFailure if the engine fails.
    """
    with tempfile.TemporaryFile() as file:
        write_tar(file, collect(programs))
        name = tag or f"{REPOSITORY}:{_digest(file)[:12]}"
        if tag is None and _has(client, name):
            return name
        file.seek(0)
        repository, _, version = name.rpartition(":") if ":" in name else (name, "", "latest")
        _import(client, file, repository, version)
    if not _has(client, name):
        raise InfrastructureFailure(f"the Docker engine took the image {name} but does not have it")
    return name


def _import(client: Any, file: BinaryIO, repository: str, version: str) -> None:
    from docker.errors import DockerException

    blocks = iter(lambda: file.read(1 << 20), b"")  # not the file: the SDK would send its length and chunks too
    try:
        client.api.import_image_from_stream(blocks, repository=repository, tag=version, changes=_CHANGES)
    except DockerException as error:
        raise InfrastructureFailure(f"importing the image {repository}:{version}: {error}") from error


def _digest(file: BinaryIO) -> str:
    file.seek(0)
    hashed = hashlib.sha256("\n".join(_CHANGES).encode())
    while block := file.read(1 << 20):
        hashed.update(block)
    return hashed.hexdigest()


def _has(client: Any, name: str) -> bool:
    from docker.errors import ImageNotFound

    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def main() -> int:
    """The command line."""
    from plaudit_sandbox.docker.connection import connect

    parser = argparse.ArgumentParser(
        prog="python -m plaudit_sandbox.docker.image",
        description="Build the minimal image of the docker sandbox from this machine's own files.",
    )
    parser.add_argument("--base-url", help="the engine's address (default: DOCKER_HOST, or the usual socket)")
    parser.add_argument("--tag", help="name of the image (default: plaudit-sandbox: and a digest of its contents)")
    parser.add_argument("--program", action="append", default=[], help="put this program in as well; may be repeated")
    args = parser.parse_args()
    programs = tuple(dict.fromkeys([*_present(), *args.program])) if args.program else PROGRAMS
    try:
        client = connect(args.base_url)
        try:
            print(build_image(client, tag=args.tag, programs=programs))
        finally:
            client.close()
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _present() -> list[str]:
    import shutil

    return [name for name in PROGRAMS if shutil.which(name)]


if __name__ == "__main__":
    sys.exit(main())
