"""Values of GRPOConfig in other spellings, and those that follow from others."""

from __future__ import annotations

import pytest
from test_config import make


@pytest.mark.parametrize(
    ("given", "name"),
    [(True, "group"), (False, "none"), ("true", "group"), ("False", "none"), ("batch", "batch"), ("none", "none")],
)
def test_spellings_of_scale_rewards(tmp_path, given, name):
    assert make(tmp_path, scale_rewards=given).scale_rewards == name


@pytest.mark.parametrize(
    ("values", "size", "steps"),
    [
        ({}, 8, 1),
        ({"gradient_accumulation_steps": 4}, 32, 4),
        ({"generation_batch_size": 24}, 24, 3),
        ({"steps_per_generation": 5}, 40, 5),
    ],
)
def test_generation_batch(tmp_path, values, size, steps):
    config = make(tmp_path, **values)
    assert (config.generation_batch_size, config.steps_per_generation) == (size, steps)


@pytest.mark.parametrize(("given", "padding"), [("auto", None), ("none", None), (None, None), ("16", 16), (8, 8)])
def test_padding(tmp_path, given, padding):
    assert make(tmp_path, pad_to_multiple_of=given).pad_to_multiple_of == padding


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("use_transformers_paged", True, "use_transformers_continuous_batching"),
        ("vllm_importance_sampling_cap", 2.5, "vllm_importance_sampling_clip_max"),
    ],
)
def test_old_names_still_work_and_say_so(tmp_path, old, value, new):
    with pytest.warns(FutureWarning, match=f"{old} is the old name of {new}"):
        assert getattr(make(tmp_path, **{old: value}), new) == value
