"""The reward functions that TRL's documentation shows, unchanged: as printed there, and inside a training run."""

from __future__ import annotations

import asyncio
import re

import pytest
from plaudit import load_reward

from runs import make_trainer, metrics_of


# Example 1
def reward_func_1(completion_ids, **kwargs):
    """Reward function that assigns higher scores to longer completions (in terms of token count)."""
    return [float(len(ids)) for ids in completion_ids]


# Example 1.1
def reward_func_1_1(completions, **kwargs):
    """Reward function that assigns higher scores to longer completions (in terms of character count)."""
    return [float(len(completion)) for completion in completions]


# Example 2
def format_reward_func(completions, **kwargs):
    """Reward function that checks if the completion has a specific format."""
    pattern = r"^<think>.*?</think><answer>.*?</answer>$"
    completion_contents = [completion[0]["content"] for completion in completions]
    matches = [re.match(pattern, content) for content in completion_contents]
    return [1.0 if match else 0.0 for match in matches]


# Example 3
def reward_func_3(completions, ground_truth, **kwargs):
    # Regular expression to capture content inside \boxed{}
    matches = [re.search(r"\\boxed\{(.*?)\}", completion) for completion in completions]
    contents = [match.group(1) if match else "" for match in matches]
    # Reward 1 if the content is the same as the ground truth, 0 otherwise
    return [1.0 if c == gt else 0.0 for c, gt in zip(contents, ground_truth)]  # noqa: B905


def check_math_solution(prompt, completion):
    return completion == "4"


def test_code_solution(prompt, completion):
    return "return" in completion


test_code_solution.__test__ = False


# Example 4
# Math-specific reward function
def math_reward_func(prompts, completions, task, **kwargs):
    rewards = []
    for prompt, completion, t in zip(prompts, completions, task):  # noqa: B905
        if t == "math":
            # Calculate math-specific reward
            correct = check_math_solution(prompt, completion)
            reward = 1.0 if correct else -1.0
            rewards.append(reward)
        else:
            # Return None for non-math tasks
            rewards.append(None)
    return rewards


# Coding-specific reward function
def coding_reward_func(prompts, completions, task, **kwargs):
    rewards = []
    for prompt, completion, t in zip(prompts, completions, task):  # noqa: B905
        if t == "code":
            # Calculate coding-specific reward
            works = test_code_solution(prompt, completion)
            reward = 1.0 if works else -1.0
            rewards.append(reward)
        else:
            # Return None for non-coding tasks
            rewards.append(None)
    return rewards


# Example 5
async def async_reward_func(prompts, completions, **kwargs):
    # Simulate an I/O-bound call (e.g., HTTP request, database lookup)
    await asyncio.sleep(0.01)
    # Simple toy reward: 1.0 if the completion is non-empty, else 0.0
    return [1.0 if completion else 0.0 for completion in completions]


# Example 6
def reward_func_6(completions, ground_truth, log_extra=None, log_metric=None, **kwargs):
    extracted = [re.search(r"\\boxed\{(.*?)\}", c) for c in completions]
    extracted = [m.group(1) if m else None for m in extracted]
    rewards = [1.0 if e == gt else 0.0 for e, gt in zip(extracted, ground_truth)]  # noqa: B905

    if log_extra:
        log_extra("golden_answer", list(ground_truth))
        log_extra("extracted_answer", [e or "[none]" for e in extracted])

    if log_metric:
        log_metric("accuracy", sum(rewards) / len(rewards))

    return rewards


SKY = {
    "prompts": ["The sky is", "The sun is"],
    "completions": [" blue.", " in the sky."],
    "completion_ids": [[6303, 13], [304, 279, 12884, 13]],
}
CHAT = {
    "prompts": [
        [{"role": "user", "content": "What is the result of (1 + 2) * 4?"}],
        [{"role": "user", "content": "What is the result of (3 + 1) * 2?"}],
    ],
    "completions": [
        [
            {
                "role": "assistant",
                "content": "<think>The sum of 1 and 2 is 3, which we multiply by 4 to get 12.</think>"
                "<answer>(1 + 2) * 4 = 12</answer>",
            }
        ],
        [
            {
                "role": "assistant",
                "content": "The sum of 3 and 1 is 4, which we multiply by 2 to get 8. So (3 + 1) * 2 = 8.",
            }
        ],
    ],
}
SOLVE = {
    "prompts": ["Problem: Solve the equation $2x + 3 = 7$. Solution:", "Problem: Solve the equation $3x - 5 = 10$."],
    "completions": [r" The solution is \boxed{2}.", r" The solution is \boxed{6}."],
    "ground_truth": ["2", "5"],
}
TASKS = {
    "prompts": ["What is 2+2?", "Write a function that returns the sum of two numbers."],
    "completions": ["4", "pass"],
    "task": ["math", "code"],
}
PRINTED = {
    "1": (reward_func_1, SKY, [2.0, 4.0]),
    "1.1": (reward_func_1_1, SKY, [6.0, 12.0]),
    "2": (format_reward_func, CHAT, [1.0, 0.0]),
    "3": (reward_func_3, SOLVE, [1.0, 0.0]),
    "4 math": (math_reward_func, TASKS, [1.0, None]),
    "4 code": (coding_reward_func, TASKS, [None, -1.0]),
    "6": (reward_func_6, SOLVE, [1.0, 0.0]),
}


@pytest.mark.parametrize("example", PRINTED)
def test_the_output_is_as_printed(example):
    function, arguments, printed = PRINTED[example]
    assert load_reward(function)(**arguments) == printed


async def test_the_asynchronous_example():
    assert await load_reward(async_reward_func)(prompts=["a", "b"], completions=["x", ""]) == [1.0, 0.0]


def plain(n):
    return {"prompt": f"{n}+{n}=", "ground_truth": str(2 * n), "task": "math" if n % 2 else "code"}


def chat(n):
    return {**plain(n), "prompt": [{"role": "user", "content": f"{n}+{n}="}]}


def test_all_examples_train_together_on_plain_prompts(tmp_path):
    examples = [
        reward_func_1,
        reward_func_1_1,
        reward_func_3,
        math_reward_func,
        coding_reward_func,
        async_reward_func,
        reward_func_6,
    ]
    rows = [plain(n) for n in range(8)]
    make_trainer(tmp_path, examples, rows=rows, log_completions=True, num_completions_to_print=0).train()
    steps = [line for line in metrics_of(tmp_path) if "reward" in line]
    assert len(steps) == 2
    assert all(f"rewards/{function.__name__}/mean" in steps[0] for function in examples)
    assert steps[0]["accuracy"] == 0.0
    table = read(tmp_path)
    for row in table:
        assert int(row["golden_answer"]) == 2 * int(row["prompt"].split("+")[0])
        assert row["extracted_answer"] == "[none]"
        assert (row["math_reward_func"] is None) != (row["coding_reward_func"] is None)
        assert row["reward_func_1_1"] == len(row["completion"])


def test_the_examples_for_conversations_train_on_conversations(tmp_path):
    rows = [chat(n) for n in range(8)]
    functions = [format_reward_func, reward_func_1, async_reward_func]
    make_trainer(tmp_path, functions, rows=rows, log_completions=True, num_completions_to_print=0).train()
    steps = [line for line in metrics_of(tmp_path) if "reward" in line]
    assert [step["rewards/format_reward_func/mean"] for step in steps] == [0.0, 0.0]
    assert [step["rewards/async_reward_func/mean"] for step in steps] == [1.0, 1.0]
    row = read(tmp_path)[0]
    assert row["completion"][0]["role"] == "assistant"
    assert row["prompt"][0]["role"] == "user"


def read(folder):
    import pyarrow.parquet as pq

    return pq.read_table(folder / "completions" / "train_00002.parquet").to_pylist()
