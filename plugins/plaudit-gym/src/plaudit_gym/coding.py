"""A programmer with a Python sandbox: tries things out, and hands in a program that is tested elsewhere."""

from __future__ import annotations

import copy
import re
from typing import Any, Literal

from plaudit_code.verify import Code
from plaudit_sandbox.tools import SandboxTools

Split = Literal["train", "test"]


class PythonSandbox:
    """Tools `python` (a session whose names and files last) and `submit`. The reward is that of the verifier `code`.

    A row has `reference`, as `code` takes it. The program handed in is tested in a sandbox of its own, which shares
    nothing with the session. `backend` (None = the run's), `timeout_s`, `memory_mb`: of the session. `credit`: 1 for
    all tests, or the fraction. Nothing handed in is 0; a sandbox that breaks has no reward.
    """

    def __init__(
        self,
        *,
        backend: str | None = None,
        timeout_s: float = 10.0,
        memory_mb: int = 512,
        credit: Literal["all", "fraction"] = "all",
    ) -> None:
        self._tools = SandboxTools(backend=backend, timeout_s=timeout_s, memory_mb=memory_mb)
        self._verifier = Code(backend=backend, timeout_s=timeout_s, credit=credit)
        self._reference: Any = None
        self._submitted: str | None = None

    async def reset(self, reference: Any) -> None:
        """Begin with an empty session."""
        self._reference, self._submitted = copy.deepcopy(reference), None
        await self._tools.reset()

    async def python(self, code: str) -> str:
        """Run Python code and return what it prints, or its error. Names and files last from call to call.

        Args:
            code: The Python code to run.

        Returns:
            What the code printed.
        """
        return await self._tools.python(code)

    def submit(self, program: str) -> str:
        """Hand in the finished program. The last one counts.

        Args:
            program: The whole Python source, with the function that is asked for.

        Returns:
            That it was taken.
        """
        self._submitted = str(program)
        return "The program was handed in."

    async def get_reward(self) -> float | None:
        """What the tests say of the program."""
        if self._submitted is None:
            return 0.0
        verdict = await self._verifier.verify(_as_block(self._submitted), self._reference)
        return verdict.score

    async def close(self) -> None:
        """End the session."""
        await self._tools.close()


def _as_block(program: str) -> str:
    """The program as a code block, with a fence that nothing in it closes; one that comes as a block stays one."""
    if program.lstrip().startswith(("```", "~~~")):
        return program
    longest = max((len(run) for run in re.findall("`+", program)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{program}\n{fence}"


def programs(split: Split = "train") -> list[dict[str, Any]]:
    """A handful of small functions to write: `prompt` (a conversation) and `reference`. Test has others than train."""
    if split not in ("train", "test"):
        raise ValueError(f"split is {split!r}; programs has train and test")
    chosen = [task for place, task in enumerate(_TASKS) if (place % 4 == 3) == (split == "test")]
    return [
        {
            "prompt": [{"role": "user", "content": f"Write a Python function {name}. {what} Try it, then submit it."}],
            "reference": {
                "mode": "function",
                "entry_point": name.partition("(")[0],
                "tests": [{"args": args, "expect": expect} for args, expect in tests],
            },
        }
        for name, what, tests in chosen
    ]


_TASKS: list[tuple[str, str, list[tuple[list[Any], Any]]]] = [
    ("digits(n)", "It gives the sum of the decimal digits of a whole number n, whatever its sign.",
     [([0], 0), ([907], 16), ([-45], 9), ([10**12], 1)]),
    ("runs(text)", "It gives the length of the longest run of one character in text, 0 for no text.",
     [([""], 0), (["abc"], 1), (["aabbbca"], 3), (["    "], 4)]),
    ("flat(items)", "It gives the numbers in items, lists nested to any depth, from left to right.",
     [([[]], []), ([[1, [2, [3]], 4]], [1, 2, 3, 4]), ([[[[[5]]]]], [5])]),
    ("clock(minutes)", "It gives the time of day as HH:MM after so many minutes from midnight, over days as well.",
     [([0], "00:00"), ([75], "01:15"), ([1440 * 3 + 61], "01:01"), ([-1], "23:59")]),
    ("common(left, right)", "It gives the sorted list of what both lists hold, each once.",
     [([[1, 2, 2], [2, 3]], [2]), ([[], [1]], []), ([[3, 1], [1, 3, 3]], [1, 3])]),
    ("primes(n)", "It gives the list of prime numbers up to and with n.",
     [([1], []), ([2], [2]), ([20], [2, 3, 5, 7, 11, 13, 17, 19])]),
    ("turned(grid)", "It gives the grid, a list of rows, turned by a quarter to the right.",
     [([[[1, 2], [3, 4]]], [[3, 1], [4, 2]]), ([[[1, 2, 3]]], [[1], [2], [3]])]),
    ("balanced(text)", "It tells whether the brackets ()[]{} in text are balanced.",
     [([""], True), (["a(b[c]{})"], True), (["(]"], False), (["(("], False), ([")("], False)]),
]  # fmt: skip
