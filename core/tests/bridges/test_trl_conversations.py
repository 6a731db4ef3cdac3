"""`engine = "trl"` with tools and environments: the same dialogues and rewards as this engine has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plaudit.cli import main
from trl_world import Counter, Script, calls

ROLLOUTS = 8  # a step
HERE = Path(__file__).parent
TEMPLATE = (
    "{% if tools %}{% for tool in tools %}tool {{ tool.function.name }}({{ tool.function.parameters | tojson }}) "
    "{{ tool.function.description }};{% endfor %}{% endif %}{% for message in messages %}[{{ message.role }}]"
    "{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>"
    "{% endfor %}<eos>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
FOUND = ("reward", "reward_std", "tools/call_frequency", "tools/failure_frequency", "num_tokens", "kinds",
         "completions/mean_length", "completions/max_length", "completions/clipped_ratio", "frac_reward_zero_std",
         "loss", "step", "eval_reward", "eval_tools/call_frequency")  # fmt: skip

RUN = """
engine = "{engine}"
output_dir = "{folder}"
{top}
[model]
path = "{model}"
{data}
[eval]
before = true
after = false
[config]
num_generations = 2
per_device_train_batch_size = {rollouts}
max_completion_length = 400
max_steps = 2
logging_steps = 1
use_cpu = true
learning_rate = 0.0
save_strategy = "no"
shuffle_dataset = false
log_completions = true
num_completions_to_print = 0
{config}
"""


@pytest.fixture(scope="module")
def talking_model(model_folder, tmp_path_factory):
    """The model of these tests with a chat template that carries tools."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("talking")
    AutoModelForCausalLM.from_pretrained(model_folder).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def train_both(tmp_path, model, monkeypatch, dialogues, rows, **parts):
    """Metrics by engine of the same run, and what its held-out rows came to."""
    from transformers import AutoTokenizer

    monkeypatch.chdir(HERE)
    Script(AutoTokenizer.from_pretrained(model), dialogues).install(monkeypatch)
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"prompt": f"row {number}. ", **row}) + "\n" for number, row in enumerate(rows)))
    filled = {
        "top": "",
        "rollouts": ROLLOUTS,
        "config": "",
        "data": f'[data]\npath = "{data}"\neval_path = "{data}"',
        "model": model,
        **parts,
    }
    found = {}
    for engine in ("plaudit", "trl"):
        folder = tmp_path / engine
        file = tmp_path / f"{engine}.toml"
        file.write_text(RUN.format(engine=engine, folder=folder, **filled).replace("ROWS", str(data)))
        assert main(["train", str(file)]) == 0
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        found[engine] = lines, json.loads((folder / "heldout.json").read_text()), folder
    return found


def compared(lines):
    """The metrics that both engines have, of each line of the log."""
    return [
        {name: line[name] for name in line if name in FOUND or name.startswith(("rewards/", "eval_rewards/"))}
        for line in lines
    ]


def assert_same(found, *expected, given_up=0):
    """`given_up`: tokens a step of the rollouts that are given up, which TRL has the policy write."""
    (ours, heldout, _), (theirs, heldout_theirs, _) = found["plaudit"], found["trl"]
    assert len(ours) == len(theirs)
    for one, other in zip(compared(ours), compared(theirs), strict=True):
        one = {
            name: value for name, value in one.items() if not name.endswith(("rewards/unscored", "rewards/infinite"))
        }
        if given_up and "num_tokens" in one:
            one["num_tokens"] += given_up * one["step"]
            one["completions/mean_length"] += given_up / ROLLOUTS
        assert other == pytest.approx(one, abs=1e-5, nan_ok=True)
    assert heldout == heldout_theirs
    for name, value in expected:
        assert theirs[0][name] == pytest.approx(value), name


ADDS = '[[reward]]\nname = "./trl_world.py:says"\n[[reward]]\nname = "./trl_world.py:messages"\nweight = 0.1\n'


@pytest.mark.peer
def test_standalone_tools(tmp_path, talking_model, monkeypatch):
    dialogues = {
        0: [calls(("double", {"number": 4})), "8"],
        1: [calls(("triple", {"number": 4})), calls(("double", {"number": 1})), "no"],
        2: [calls(("triple", {"number": 2000}), ("nothing", {})), "I give up"],
        3: ["8"],
    }
    rows = [{"answer": "8"}, {"answer": "12"}, {"answer": "x"}, {"answer": "8"}]
    found = train_both(
        tmp_path, talking_model, monkeypatch, dialogues, rows,
        top='tools = ["./trl_world.py:double", "./trl_world.py:triple"]\n' + ADDS,
        config="eval_strategy = 'steps'\neval_steps = 1\nper_device_eval_batch_size = 2",
    )  # fmt: skip
    assert_same(found, ("rewards/says/mean", 0.5), ("tools/call_frequency", 5 / 4), ("tools/failure_frequency", 2 / 5))


ENVIRONMENT = '[[environment]]\nname = "trl_world:Counter"\n' + ADDS


@pytest.mark.peer
def test_an_environment(tmp_path, talking_model, monkeypatch):
    Counter.seeds.clear()
    Counter.began.clear()
    dialogues = {
        0: [calls(("add", {"number": 2})), calls(("add", {"number": 3}), ("look", {})), "done"],
        1: [calls(("add", {"number": 200}), ("fast", {"number": 1})), "done"],
        2: ["done"],
        3: [calls(("add", {"wrong": 1})), "no"],
    }
    rows = [{"goal": goal, "answer": "done", "extra": {"a": 1}} for goal in (5, 5, -1, 0)]
    alive = Counter.alive
    found = train_both(tmp_path, talking_model, monkeypatch, dialogues, rows, top=ENVIRONMENT)
    spoken = len("done") + 1  # row 2, and the token that ends it
    assert_same(found, ("rewards/Counter/mean", 2 / 3), ("rewards/says/mean", 2 / 3), given_up=2 * spoken)
    assert Counter.alive == alive
    # The group's seed is shared by its two rollouts, and differs from the other groups'.
    last = Counter.seeds[-8:]
    assert last[0::2] == last[1::2]
    assert len(set(last)) == 4
    assert all("plaudit_row" not in more and more["extra"] == {"a": 1} for more in Counter.began)


TASKS = """
[[task]]
name = "count"
[task.data]
path = "ROWS"
eval_path = "ROWS"
[task.environment]
name = "./trl_world.py:Counter"
[[task.reward]]
name = "./trl_world.py:says"
[[task]]
name = "talk"
[task.data]
path = "ROWS"
eval_path = "ROWS"
[[task.reward]]
name = "./trl_world.py:says"
weight = {schedule = "linear", start = 2.0, end = 1.0, steps = 1}
after = "talk/messages"
[[task.reward]]
name = "./trl_world.py:messages"
weight = 0.0
"""


@pytest.mark.peer
def test_tasks_with_and_without_environments(tmp_path, talking_model, monkeypatch):
    dialogues = {0: [calls(("add", {"number": 5})), "done"], 1: ["done"]}
    rows = [{"goal": 5, "answer": "done", "extra": (1, 2)}, {"goal": 7, "answer": "no", "extra": [1]}]
    found = train_both(tmp_path, talking_model, monkeypatch, dialogues, rows, data=TASKS)
    assert_same(found)


@pytest.mark.peer
def test_values_of_rows_are_the_same(tmp_path, talking_model, monkeypatch):
    rows = [{"answer": "a", "extra": {"a": 1}}, {"answer": "b", "extra": {"b": 2, "c": [1, None]}}] * 2
    top = ADDS + '[[reward]]\nname = "./trl_world.py:kinds"\n'
    found = train_both(tmp_path, talking_model, monkeypatch, {n: ["a"] for n in range(4)}, rows, top=top)
    assert_same(found, ("rewards/kinds/mean", 0.5), ("keys", 1.5))
    assert [path.name for path in sorted((found["trl"][2] / "completions").iterdir())] != []
