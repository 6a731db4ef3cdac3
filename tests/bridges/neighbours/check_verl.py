"""verl 0.9 loads our functions and calls them as its reward managers do."""

import asyncio
import importlib.util
from importlib.metadata import distribution
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def load_extern_object():
    """verl's own loader; the file alone, since the package imports an engine."""
    path = Path(distribution("verl").locate_file("verl/utils/import_utils.py"))
    spec = importlib.util.spec_from_file_location("verl_import_utils", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load_extern_object


@pytest.mark.parametrize(("answer", "score"), [("4", 1.0), ("5", 0.0)])
def test_by_package_path(load_extern_object, answer, score):
    function = load_extern_object(module_path="pkg://plaudit.bridges.verl", object_name="exact")
    assert asyncio.iscoroutinefunction(function)
    arguments = {"data_source": "d", "solution_str": answer, "ground_truth": "4", "extra_info": {"index": 0}}
    told = asyncio.run(function(**arguments, reward_router_address=None))
    assert (told["score"], set(told)) == (score, {"score", "acc", "scored", "extracted"})


def test_by_the_path_of_our_file(load_extern_object):
    from plaudit.bridges import verl

    function = load_extern_object(module_path=verl.__file__, object_name="exact")
    assert asyncio.run(function("d", "4", "4", {"num_turns": None}))["score"] == 1.0


def test_by_the_path_of_a_file(load_extern_object, tmp_path):
    file = tmp_path / "my_reward.py"
    file.write_text("from plaudit.bridges.verl import score_function\ncompute_score = score_function('exact')\n")
    function = load_extern_object(module_path=str(file), object_name="compute_score")
    assert asyncio.run(function("d", "5", "4", {}))["score"] == 0.0


def test_by_reward_kwargs(load_extern_object):
    function = load_extern_object(module_path="pkg://plaudit.bridges.verl", object_name="compute_score")
    told = asyncio.run(function("d", "4", "4", None, reward="numeric", options={}))
    assert told["score"] == 1.0


def test_a_verl_function_by_its_own_path():
    from plaudit import load_verifier

    source = Path(distribution("verl").locate_file("verl/utils/reward_score/gsm8k.py"))
    judge = load_verifier(
        "verl", options={"function": f"{source}:compute_score", "reward_kwargs": {"method": "strict"}}
    )
    assert [asyncio.run(judge(text, "4")).score for text in ("so #### 4", "so #### 5")] == [1.0, 0.0]
