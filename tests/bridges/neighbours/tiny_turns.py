"""Environments of many turns of verifiers before 0.4: a user who answers, a tool, rewards that compare a group."""

from datasets import Dataset

import verifiers as vf


def rows(count):
    return Dataset.from_list([{"question": f"question {place}", "answer": str(place + 2)} for place in range(count)])


class Guess(vf.MultiTurnEnv):
    """The user says higher or lower until the number is guessed."""

    async def setup_state(self, state):
        state["tries"] = 0

    async def env_response(self, messages, state, **kwargs):
        state["tries"] += 1
        said, wanted = messages[-1].content, state["answer"]
        if said == wanted:
            state["final_env_response"] = [{"role": "user", "content": "right"}]
            return state["final_env_response"]
        return [{"role": "user", "content": "higher" if said < wanted else "lower"}]


async def guessed(completion, answer):
    return float(any(one.role == "assistant" and one.content == answer for one in completion))


async def quick(state):
    return 1.0 / state["tries"] if state["tries"] else 0.0


def best_of_group(completions):
    lengths = [len(one) for one in completions]
    return [float(length == min(lengths)) for length in lengths]


def broken(completion):
    raise RuntimeError("the judge is out")


def no_number(completion):
    return float("nan")


def add(number: int, other: int) -> int:
    """Add two numbers.

    Args:
        number: The first.
        other: The second.
    """
    return number + other


async def used_a_tool(completion, state):
    return float(any(one.role == "tool" and one.content == "5" for one in completion))


def load_environment(kind: str = "guess", count: int = 4, max_turns: int = 4):
    data = rows(count)
    if kind == "tools":
        return vf.ToolEnv(
            tools=[add], dataset=data, max_turns=max_turns, rubric=vf.Rubric(funcs=[used_a_tool], weights=[1.0])
        )
    if kind == "nothing":
        return Guess(dataset=data, max_turns=max_turns, rubric=vf.Rubric(funcs=[guessed], weights=[0.0]))
    if kind == "mixture":
        return vf.EnvGroup([load_environment("guess", 2), load_environment("broken", 2)], env_names=["good", "bad"])
    funcs = {
        "guess": [guessed, quick],
        "group": [guessed, best_of_group],
        "broken": [guessed, broken],
        "nan": [no_number],
    }[kind]
    return Guess(dataset=data, max_turns=max_turns, rubric=vf.Rubric(funcs=funcs, weights=[1.0, 0.5][: len(funcs)]))
