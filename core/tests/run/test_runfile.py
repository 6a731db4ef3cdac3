"""The run file: what it accepts, what `--set` changes, and the message for each thing it refuses."""

from __future__ import annotations

import re
import tomllib

import pytest
import tomli_w
from plaudit import UsageError
from plaudit.run.overrides import apply_overrides
from plaudit.run.runfile import load_run_file, parse_run, resolved_table, write_run_file

SMALL = """
output_dir = "runs/x"
[model]
path = "model"
[data]
path = "rows.jsonl"
[[reward]]
name = "exact"
"""
FULL = """
output_dir = "runs/full"
[model]
path = "org/model"
revision = "abc"
model_init_kwargs = {dtype = "bfloat16"}
[model.peft]
r = 8
[[reward]]
name = "format"
weight = {schedule = "linear", start = 1.0, end = 0.1, steps = 50}
clip = [0.0, 1.0]
[[task]]
name = "math"
ratio = 2
[task.data]
name = "gsm8k"
config = "main"
columns = {prompt = "question"}
answer_pattern = '####\\s*(.+)'
few_shot = [{prompt = "1+1?", answer = "2"}]
[[task.reward]]
name = "math>=0.1"
options = {strict = true}
reference_column = "answer"
timeout_s = 2
on_error = "drop_group"
executor = "process"
[[task]]
name = "chat"
ratio = 1.5
[task.data]
path = "chat.parquet"
system_prompt = "Be brief."
eval_size = 5
[eval]
temperature = 0.7
[config]
max_steps = 3
learning_rate = 1e-5
"""


def parse(text: str, *assignments: str):
    return parse_run(apply_overrides(tomllib.loads(text), assignments))


def test_small_run_has_the_defaults():
    run = parse(SMALL)
    assert (run.output_dir, run.model.path, run.data.path, run.data.split) == ("runs/x", "model", "rows.jsonl", "train")
    assert run.rewards[0].weight == 1.0
    assert run.rewards[0].timeout_s is None
    assert run.tasks == ()
    assert run.eval.temperature == 0.0
    assert dict(run.config) == {}


def test_full_run_keeps_every_value():
    run = parse(FULL)
    math, chat = run.tasks
    assert math.data.few_shot[0].answer == "2"
    assert math.rewards[0].options == {"strict": True}
    assert math.rewards[0].on_error == "drop_group"
    assert math.ratio == 2
    assert chat.data.eval_size == 5
    assert run.rewards[0].clip == (0.0, 1.0)
    assert run.model.peft == {"r": 8}
    assert run.eval.temperature == 0.7


@pytest.mark.parametrize("text", [SMALL, FULL], ids=["small", "full"])
def test_resolved_run_reads_back_as_the_same_run(text, tmp_path):
    run = parse(text, "model.peft={}")
    write_run_file(run, tmp_path / "run.toml")
    assert load_run_file(tmp_path / "run.toml") == run
    assert tomllib.loads(tomli_w.dumps(resolved_table(run)))["eval"]["before"] is True


@pytest.mark.parametrize(
    ("assignment", "read", "expected"),
    [
        ("config.max_steps=20", lambda run: run.config["max_steps"], 20),
        ("config.learning_rate = 1e-4", lambda run: run.config["learning_rate"], 1e-4),
        ("config.loss_type=dr_grpo", lambda run: run.config["loss_type"], "dr_grpo"),
        ('output_dir="a b"', lambda run: run.output_dir, "a b"),
        ("reward.0.weight=2", lambda run: run.rewards[0].weight, 2),
        ("reward.0.options.strict=true", lambda run: run.rewards[0].options, {"strict": True}),
        ("data.columns={prompt='q=a'}", lambda run: run.data.columns, {"prompt": "q=a"}),
        ("reward=[{name='a'},{name='b'}]", lambda run: [reward.name for reward in run.rewards], ["a", "b"]),
        ("eval.before=false", lambda run: run.eval.before, False),
    ],
)
def test_set_changes_one_value(assignment, read, expected):
    assert read(parse(SMALL, assignment)) == expected


def test_later_assignments_win_and_the_file_table_stays_as_it_was():
    table = tomllib.loads(SMALL)
    changed = apply_overrides(table, ["model.path=a", "model.path=b"])
    assert changed["model"]["path"] == "b"
    assert table["model"]["path"] == "model"


REFUSED = [
    ("outptu_dir='x'", "unknown key 'outptu_dir'; did you mean 'output_dir'?"),
    ("data.colums={prompt='q'}", "unknown key 'colums' in [data]; did you mean 'columns'?"),
    ("environment=[{nam='x'}]", "unknown key 'nam' in [environment.0]; did you mean 'name'?"),
    ("reward.0.wieght=1", "unknown key 'wieght' in [reward.0]; did you mean 'weight'?"),
    ("reward.0.weight='heavy'", 'reward.0.weight = "heavy": expected a number or a table'),
    ("reward.0.weight=true", "reward.0.weight = true: expected a number"),
    ("reward.0.retries=1.5", "reward.0.retries = 1.5: expected an integer"),
    ("reward.0.retries=-1", "reward.0.retries = -1: expected 0 or more"),
    ("reward.0.timeout_s=-2", "expected seconds; 0 is no limit"),
    ("reward.0.on_error='abstian'", "did you mean 'abstain'?"),
    ("reward.0.clip=[1, 0]", "reward.0.clip = [1, 0]: expected [low, high]"),
    ("reward.3.weight=1", "--set reward.3.weight=1: '3' is not a place in that list; it holds 0 to 0"),
    ("reward.first.weight=1", "'first' is not a place in that list"),
    ("output_dir.x=1", "'x' cannot be set inside the value 'runs/x'"),
    ("config.max_steps", "--set config.max_steps: expected key=value"),
    ("=1", "expected key=value"),
    ("model=3", "model = 3: expected a table, [model]"),
    ("model={}", "model.path is missing: expected a string"),
    ("reward={name='exact'}", "expected a list of tables, [[reward]]"),
    ("reward=[]", "a run needs a reward: add [[reward]] name ="),
    ("data.name='gsm8k'", "[data] has both path and name"),
    ("data={split='test'}", "[data] has neither path nor name"),
    ("data.max_rows=0", "data.max_rows = 0: expected at least 1"),
    ("data.answer_pattern='####.*'", "has 0 groups: expected one, around the answer"),
    ("data.answer_pattern='('", "is not a regular expression"),
    ("data.few_shot=[{prompt='x'}]", "data.few_shot.0.answer is missing"),
    ("eval.temperature=-1", "expected 0 (greedy) or more"),
    ("config.output_dir='x'", "config.output_dir: say it as output_dir instead"),
    ("config.reward_weights=[1.0]", "config.reward_weights: say it as reward.N.weight instead"),
    ("task=[{name='a',data={path='x'}}]", "either [data] or [[task]] with [task.data], not both"),
]


@pytest.mark.parametrize(("assignment", "message"), REFUSED, ids=[assignment for assignment, _ in REFUSED])
def test_refusals_name_the_key_and_what_to_do(assignment, message):
    with pytest.raises(UsageError) as caught:
        parse(SMALL, assignment)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2


TASKS_REFUSED = [
    ("task.1.name='math'", "two tasks have this name"),
    ("task.1.name=''", 'task.1.name = "": expected a name'),
    ("task.0.ratio=0", "task.0.ratio = 0: expected a number above 0"),
    ("task.0.reward.0.when={task='math'}", "already runs on its own rows only"),
    ("task.0.data={}", "[task.0.data] has neither path nor name"),
    ("task.0={name='x',data={path='a'}}", "give every [[task]] a ratio, or none"),
]


@pytest.mark.parametrize(("assignment", "message"), TASKS_REFUSED)
def test_refusals_about_tasks(assignment, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        parse(FULL, assignment)


def test_a_task_without_any_reward_is_refused():
    with pytest.raises(UsageError, match="task 'chat' has no reward"):
        parse(FULL, "reward=[]")


def test_unreadable_files_say_so(tmp_path):
    (tmp_path / "run.toml").write_text("output_dir = ", encoding="utf-8")
    with pytest.raises(UsageError, match="is not TOML"):
        load_run_file(tmp_path / "run.toml")
    with pytest.raises(UsageError, match=r"did you mean '.*run\.toml'"):
        load_run_file(tmp_path / "rum.toml")
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not TOML"):
        load_run_file(tmp_path / "run.toml")
