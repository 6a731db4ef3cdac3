"""The `docker` back end: warm hardened containers, each with an agent inside; needs the Docker SDK and an engine."""

from __future__ import annotations

from plaudit_sandbox.docker.backend import DockerBackend

__all__ = ["DockerBackend"]
