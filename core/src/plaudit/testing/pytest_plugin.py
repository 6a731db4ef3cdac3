"""The fixtures `check_reward`, `check_verifier` and `check_environment`; plaudit is imported when one is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def check_reward() -> Callable[..., Any]:
    """`plaudit.testing.check_reward`."""
    from plaudit.testing import check_reward

    return check_reward


@pytest.fixture(scope="session")
def check_verifier() -> Callable[..., Any]:
    """`plaudit.testing.check_verifier`."""
    from plaudit.testing import check_verifier

    return check_verifier


@pytest.fixture(scope="session")
def check_environment() -> Callable[..., Any]:
    """`plaudit.testing.check_environment`."""
    from plaudit.testing import check_environment

    return check_environment
