"""An environment of verifiers before 0.4."""

from datasets import Dataset

import verifiers as vf


def right(completion, answer):
    return float(completion[-1]["content"] == answer)


async def short(completion, state):
    return float(len(state["completion"][-1]["content"]) < 3)


def broken(completion):
    raise RuntimeError("the judge is out")


def load_environment(count: int = 2, fails: bool = False):
    data = Dataset.from_list([{"question": f"{number}+1=", "answer": str(number + 1)} for number in range(count)])
    return vf.SingleTurnEnv(
        dataset=data, rubric=vf.Rubric(funcs=[right, broken if fails else short], weights=[1.0, 0.5])
    )
