"""A TRL script runs after changing one import: the trainer's methods take what TRL's take."""

from __future__ import annotations

import inspect

import pytest
from plaudit.grpo import GRPOTrainer

pytestmark = pytest.mark.peer

# TRL's own maths, which here are functions of plaudit.grpo.
FUNCTIONS_HERE = {"get_high_entropy_mask", "get_off_policy_mask", "get_gamma_weights"}


def parameters(function):
    """(name, kind, default) of each parameter."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def public_methods():
    from trl import GRPOTrainer as Peer

    names = {name for name, value in inspect.getmembers(Peer, inspect.isfunction) if not name.startswith("_")}
    return sorted(names - FUNCTIONS_HERE)


@pytest.mark.parametrize("name", ["__init__", *public_methods()])
def test_a_method_takes_what_that_of_trl_takes(name):
    from trl import GRPOTrainer as Peer

    assert parameters(getattr(GRPOTrainer, name)) == parameters(getattr(Peer, name))
