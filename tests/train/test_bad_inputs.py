"""Every wrong input of a run, through the command line: exit code 2 and one or two lines that say what to do."""

from __future__ import annotations

import json

import pytest

REWARDS = """
def short(completions, **columns):
    return [1.0]

def needs_level(completions, level):
    return [float(one) for one in level]

def hard(completions, *, threshold: float = 0.5):
    return [threshold] * len(completions)
"""
REWARD = "reward=[{name='./rewards.py:%s'%s}]"

CASES = {
    "unknown reward": (["reward.0.name=aditon"], ["no reward or verifier named 'aditon'", "did you mean 'addition'"]),
    "reward of a package that is not installed": (
        ["reward.0.name=nothing-here:math"],
        ["neither an installed distribution nor a module is called 'nothing-here'"],
    ),
    "reward file that is not there": (["reward.0.name=./reward.py:short"], ["there is no file", "reward.py"]),
    "function that the file lacks": (
        ["reward.0.name=./rewards.py:shrot"],
        ["'shrot' is not in", "did you mean 'short'"],
    ),
    "unknown option": (
        [REWARD % ("hard", ", options={treshold=1.0}")],
        ["has no option 'treshold'; did you mean 'threshold'?"],
    ),
    "option of a wrong type": ([REWARD % ("hard", ", options={threshold='x'}")], ["option 'threshold' is 'x' (str)"]),
    "version that is not met": (
        ["reward.0.name=addition>=99"],
        ["wants >=99, found plaudit-quickstart 0.1.0", "pip install 'plaudit-quickstart>=99'"],
    ),
    "list of the wrong length": ([REWARD % ("short", "")], ["reward 'short' returned 1 scores for 16 completions"]),
    "column that a reward needs": ([REWARD % ("needs_level", "")], ["'needs_level' needs 'level'", "(columns: answer"]),
    "reference column that is not there": (["reward.0.reference_column=gold"], ["'gold'", "columns:"]),
    "data without a reference": (
        ["data={path='plain.jsonl'}"],
        ["verifier 'addition' needs a reference", "set reference_column"],
    ),
    "when names no column": (["reward.0.when={topic='x'}"], ["when names the column 'topic' (columns: "]),
    "when matches no row": (["reward.0.when={task='math'}"], ["would never run: no row has task = 'math'"]),
    "prompt column": (
        ["data={path='questions.jsonl'}"],
        ["no column 'prompt'", 'data.columns = {prompt = "question"}'],
    ),
    "column map": (
        ["data={path='questions.jsonl',columns={prompt='q'}}"],
        ["no column 'q'", "(columns: question, answer)"],
    ),
    "group size against the batch": (
        ["config.per_device_train_batch_size=6"],
        ["generation_batch_size", "num_generations", "6", "4"],
    ),
    "one completion a group": (["config.num_generations=1"], ["num_generations", "at least 2"]),
    "fewer rows than a batch": (["data.options={size=3}"], ["3 rows cannot fill one generation batch of 4 prompts"]),
    "model folder that is not there": (["model.path=./nowhere"], ["model.path = './nowhere': there is no such folder"]),
    "model folder without a model": (
        ["model.path=./folder"],
        ["is not a model: it has no config.json (it holds note.txt)"],
    ),
    "model that is a file": (["model.path=plain.jsonl"], ["is a file; name the folder that holds config.json"]),
    "model id that nobody has": (
        ["model.path=nobody/nothing"],
        ["model.path = 'nobody/nothing' is not a model", "quickstart"],
    ),
    "model kind that does not exist": (["model.path=./strange"], ["model.path = './strange' is not a model"]),
    "model without weights": (["model.path=./hollow"], ["has a config.json but no weights"]),
    "empty dataset": (["data={path='empty.jsonl'}"], ["'empty.jsonl' holds no rows"]),
    "dataset that is not there": (
        ["data={path='emtpy.jsonl'}"],
        ["no file 'emtpy.jsonl'; did you mean 'empty.jsonl'?"],
    ),
    "prompts longer than the context": (
        ["data={path='long.jsonl'}"],
        ["has 120 tokens (row 8)", "context of 128 leaves 88", "data.max_prompt_tokens = 88"],
    ),
    "held-out prompts longer than the context": (
        ["data.eval_path=long.jsonl"],
        ["the longest of the held-out prompts has 120 tokens"],
    ),
    "completions longer than the context": (
        ["config.max_completion_length=128"],
        ["leaves no room for a prompt", "set it to at most 120"],
    ),
    "limit that drops every row": (["data.max_prompt_tokens=2"], ["drops every row; the shortest prompt has 8"]),
    "conversation for a model without a chat template": (
        ["data.system_prompt=Think."],
        ["conversations but the tokenizer has no chat template"],
    ),
    "unknown config field": (["config.max_step=3"], ["unknown key 'max_step' in [config]; did you mean 'max_steps'?"]),
    "config field of a wrong type": (["config.max_steps=many"], ['config.max_steps = "many": expected an integer']),
    "config value that does not exist": (["config.loss_type=grpoo"], ["loss_type", "grpoo"]),
    "config feature that is not built": (["config.use_vllm=true"], ["use_vllm"]),
    "evaluation without rows": (["config.eval_strategy=steps"], ["needs held-out rows: set data.eval_split"]),
    "adapter field": (["model.peft={rank=8}"], ["unknown key 'rank' in [model.peft]"]),
    "resume without a checkpoint": (["--resume"], ["--resume: 'run' holds no checkpoint"]),
    "lock that is not there": (["--locked"], ["there is no lock at run/plaudit.lock"]),
}


@pytest.fixture
def inputs(run_folder):
    """The files that the cases name, in the working directory."""
    long = [{"prompt": "1+1=" * (30 if i == 8 else 2), "answer": "2"} for i in range(32)]
    files = {
        "rewards.py": REWARDS,
        "plain.jsonl": '{"prompt": "1+1="}\n' * 8,
        "questions.jsonl": '{"question": "1+1=", "answer": "2"}\n' * 8,
        "empty.jsonl": "",
        "long.jsonl": "".join(json.dumps(row) + "\n" for row in long),
        "folder/note.txt": "x",
        "strange/config.json": '{"model_type": "no-such-type"}',
        "strange/model.safetensors": "x",
        "hollow/config.json": "{}",
    }
    for name, content in files.items():
        (run_folder / name).parent.mkdir(exist_ok=True)
        (run_folder / name).write_text(content, encoding="utf-8")
    return run_folder


@pytest.mark.parametrize("case", CASES)
def test_wrong_input_is_told_in_two_lines(case, train, inputs, capsys):
    arguments, messages = CASES[case]
    assert train(*arguments) == 2
    error = capsys.readouterr().err
    for message in messages:
        assert message in error
    assert error.startswith("error: ")
    assert len(error.strip().splitlines()) <= 2
