"""Every environment: the conformance checks, and what it promises beyond them."""

from __future__ import annotations

import asyncio
import random

import pytest
from plaudit import load_environment
from plaudit.run.origins import load_records
from plaudit.run.schema import DataSection
from plaudit.testing import check_environment
from plaudit_gym.calculator import Calculator, arithmetic
from plaudit_gym.coding import PythonSandbox, programs
from plaudit_gym.databases import shop
from plaudit_gym.expressions import evaluate
from plaudit_gym.games import GridWalk, GuessNumber

SHOP = {key: value for key, value in shop(size=1)[0].items() if key != "prompt"}
ROWS = {
    "calculator": {},
    "guess_number": {"seed": 1},
    "grid_walk": {"seed": 1},
    "python_sandbox": {"reference": programs()[0]["reference"]},
    "sqlite_questions": SHOP,
}


@pytest.mark.parametrize("name", ROWS)
def test_conformance(name):
    assert {"reset", "tools", "instances are their own"} <= set(check_environment(name, row=ROWS[name]).passed)


@pytest.mark.parametrize("name", ["gym:arithmetic", "gym:programs", "gym:shop"])
def test_datasets_are_found_by_name_and_their_splits_share_nothing(name):
    train, test = (load_records(DataSection(name=name, split=split), "data") for split in ("train", "test"))
    shown = [{repr(row) for row in rows} for rows in (train, test)]
    assert not shown[0] & shown[1]
    assert all(isinstance(row["prompt"], list) for row in train)


def test_calculator_answers_its_own_questions():
    for row in arithmetic(size=50, operands=4):
        expression = row["prompt"][0]["content"].removeprefix("What is ").partition("?")[0]
        assert Calculator().calculate(expression) == row["answer"] == str(eval(expression))
    assert Calculator().calculate(12) == "12"
    assert Calculator().calculate("1/0").startswith("error: a division")
    assert Calculator().calculate("__import__('os')").startswith("error:")
    assert Calculator().calculate("9**9**9").startswith("error:")


@pytest.mark.parametrize("options", [{"operands": 1}, {"largest": 1}, {"split": "dev"}, {"operands": 2, "largest": 10}])
def test_arithmetic_that_cannot_be_is_refused(options):
    with pytest.raises(ValueError, match=r"no such|not 1000"):
        arithmetic(**options)


def test_halving_always_finds_the_number():
    for secret in (1, 37, 64, 100):
        game = GuessNumber()
        game.reset(secret=secret)
        low, high = 1, 100
        while low <= high:
            middle = (low + high) // 2
            said = game.guess(middle)
            if said == "Right!":
                break
            low, high = (middle + 1, high) if "higher" in said else (low, middle - 1)
        assert game.get_reward() == 1.0
        assert game.guess(secret) == "The game is over."


def test_guessing_too_often_ends_the_game():
    game = GuessNumber(guesses=2)
    game.reset(secret=50)
    assert "1 guesses left" in game.guess(1)
    assert "it was 50" in game.guess(1)
    assert game.guess(50) == "The game is over."
    assert game.get_reward() == 0.0


@pytest.mark.parametrize("number", ["50", 50])
def test_a_guess_is_a_whole_number_however_it_is_written(number):
    game = GuessNumber(guesses=1)
    game.reset(secret=50)
    for wrong in ("fifty", 50.5, True, None, [50], float("nan")):
        assert "is no whole number. 1 guesses left." in game.guess(wrong)
    assert game.get_reward() == 0.0
    assert game.guess(number) == "Right!"


def test_a_group_shares_its_start():
    games = [GridWalk(), GridWalk(), GridWalk()]
    starts = [game.reset(seed=seed) for game, seed in zip(games, (5, 5, 6), strict=True)]
    assert starts[0] == starts[1] != starts[2]


def test_the_shortest_way_is_worth_one():
    for seed in range(20):
        game = GridWalk(size=6)
        game.reset(seed=seed)
        while game.get_reward() < 1:
            here = game._distance[game._at]
            steps = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
            name = next(
                name for name, (down, right) in steps.items()
                if game._distance.get((game._at[0] + down, game._at[1] + right), 99) < here
            )  # fmt: skip
            said = game.move(name)
            assert said.startswith(("You are there", f"{game._left} moves left"))


def test_walls_the_edge_and_the_end_of_moves():
    game = GridWalk(slack=0)
    game.reset(grid=["@.G", "##."])
    assert "no way down" in game.move("down")
    assert "no way up" in game.move("up")
    assert game.move("sideways").startswith("There is no direction")
    assert game.move("right").endswith(".@G\n##.")
    assert game.get_reward() == 0.25
    assert game.move("right") == "You are there!"
    assert game.get_reward() == 1.0
    game.reset(grid=["@.G"])
    for _ in range(4):
        game.move("left")
    assert game.move("right") == "The walk is over."


@pytest.mark.parametrize("grid", [["@#G"], ["@."], ["@G", "."]])
def test_a_grid_that_cannot_be_walked_is_refused(grid):
    with pytest.raises(ValueError, match="grid"):
        GridWalk().reset(grid=grid)


async def test_the_programmer_keeps_names_and_is_judged_elsewhere():
    row = programs()[0]
    agent = PythonSandbox()
    try:
        await agent.reset(reference=row["reference"])
        assert await agent.get_reward() == 0.0
        assert (await agent.python("total = 40")).strip() == ""
        assert (await agent.python("print(total + 2)")).strip() == "42"
        assert "ZeroDivisionError" in await agent.python("1 / 0")
        agent.submit("def digits(n):\n    return n")
        assert await agent.get_reward() == 0.0
        agent.submit("def digits(n):\n    return sum(map(int, str(abs(n))))")
        assert await agent.get_reward() == 1.0
        await agent.reset(row["reference"])
        assert await agent.get_reward() == 0.0
        assert "NameError" in await agent.python("total")
    finally:
        await agent.close()


async def test_a_program_is_judged_whole_however_it_is_handed_in():
    """Fences in its strings close nothing, and one that comes as a block is taken out of it."""
    program = "def digits(n):\n    return sum(map(int, str(abs(n))))"
    agent = PythonSandbox()
    await agent.reset(programs()[0]["reference"])
    for handed_in, score in (
        (f'{program}\n\nNOTE = """\n```python\nprint(1)\n```\n"""', 1.0),
        (f"```python\n{program}\n```", 1.0),
        (f"\n~~~\n{program}\n~~~\n", 1.0),
        ("```", 0.0),
        (7, 0.0),
    ):
        agent.submit(handed_in)
        assert await agent.get_reward() == score, handed_in
    await agent.close()


async def test_programs_have_solutions():
    """Each task's tests can be met, and are not met by a function that gives nothing."""
    solutions = {
        "digits": "def digits(n):\n    return sum(map(int, str(abs(n))))",
        "runs": "from itertools import groupby\ndef runs(text):\n"
        "    return max((len(list(run)) for _, run in groupby(text)), default=0)",
        "flat": "def flat(items):\n    return [x for i in items for x in (flat(i) if isinstance(i, list) else [i])]",
        "clock": "def clock(minutes):\n    return '%02d:%02d' % divmod(minutes % 1440, 60)",
        "common": "def common(left, right):\n    return sorted(set(left) & set(right))",
        "primes": "def primes(n):\n    return [p for p in range(2, n + 1) if all(p % d for d in range(2, p))]",
        "turned": "def turned(grid):\n    return [list(row) for row in zip(*grid[::-1])]",
        "balanced": (
            "def balanced(text):\n    pairs, seen = {')': '(', ']': '[', '}': '{'}, []\n    for c in text:\n"
            "        if c in pairs.values(): seen.append(c)\n"
            "        elif c in pairs and (not seen or seen.pop() != pairs[c]): return False\n    return not seen"
        ),
    }  # fmt: skip
    agent = PythonSandbox()
    for row in [*programs(), *programs("test")]:
        name = row["reference"]["entry_point"]
        await agent.reset(row["reference"])
        agent.submit(f"def {name}(*_):\n    return None")
        assert await agent.get_reward() == 0.0
        agent.submit(solutions[name])
        assert await agent.get_reward() == 1.0, name
    await agent.close()


def test_environments_run_side_by_side():
    """Instances share nothing: games of many rollouts may be played at once."""
    make = load_environment("guess_number", options={"high": 10})
    games = [make() for _ in range(20)]

    async def play(game, secret):
        game.reset(secret=secret)
        for number in range(1, 11):
            await asyncio.sleep(0)
            game.guess(number)
        return game.get_reward()

    async def all_games():
        return await asyncio.gather(*(play(game, 1 + place % 10) for place, game in enumerate(games)))

    assert asyncio.run(all_games()) == [float(1 + place % 10 <= 4) for place in range(20)]


def test_expressions_of_random_rows_have_the_answer():
    rng = random.Random(3)
    row = rng.choice(arithmetic("test", size=20))
    assert evaluate(row["answer"], signs=True).value.denominator == 1
