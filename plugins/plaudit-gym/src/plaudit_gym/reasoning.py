"""reasoning-gym's generators as datasets, and its scorers as verifiers, each under `reasoning_gym:NAME`.

Generators write the rows here. What scores an answer runs in a sandbox only: some of reasoning-gym's scorers evaluate
the answer as Python. `countdown`, `puzzle24` and `number_sorting` are decided by rules of our own instead.
"""

from __future__ import annotations

import base64
import json
import pickle
import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal

from plaudit import Verdict, verifier
from plaudit_sandbox import InfrastructureFailure, Limits, Sandbox, shared_sandbox
from plaudit_sandbox.choosing import default_sandbox

from .generators import require
from .puzzles import BadReference, answer_of, countdown, sorted_numbers
from .scoring_program import PROGRAM

Split = Literal["train", "test"]
MAX_CHARACTERS = 20_000

# These evaluate the answer as Python. Only what cannot call anything reaches them: a program in the answer could else
# write its own verdict.
_LITERAL = re.compile(r"[\w\s,'\"\[\]\-]*")
_FORMULA = re.compile(r"[\w\s+\-*/^(),]*")
_FUNCTIONS = frozenset(
    "sin cos tan sec csc cot asin acos atan sinh cosh tanh exp log ln sqrt Abs pi E I erf Ei Si Ci li gamma".split()
)
_EVALUATED = {
    **dict.fromkeys(("string_insertion", "spiral_matrix", "binary_matrix", "n_queens"), "literal"),
    **dict.fromkeys(("simple_integration", "intermediate_integration", "polynomial_multiplication"), "formula"),
}


@cache
def rows_of(generator: str) -> Callable[..., list[dict[str, Any]]]:
    """The dataset of a generator of reasoning-gym, by its name; raises KeyError where there is none."""
    require(generator)

    def rows(
        split: Split = "train", *, size: int = 500, seed: int = 0, config: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Rows of `prompt`, `answer`, `metadata` (JSON, to look at) and `entry` (what the verifier of the name needs).

        `config`: the generator's own settings. The splits draw from different seeds.
        """
        reasoning_gym = _library()
        if split not in ("train", "test"):
            raise ValueError(f"split is {split!r}; reasoning_gym:{generator} has train and test")
        # Row i is made from its seed + i: seeds that lie apart, so that splits share no row.
        start = random.Random(f"{split} {seed}").randrange(2**30)
        made = reasoning_gym.create_dataset(generator, size=size, seed=start, **(config or {}))
        return [_row(entry) for entry in made]

    rows.__name__ = rows.__qualname__ = f"{generator}_rows"
    return rows


@cache
def verifier_of(generator: str) -> Any:
    """The verifier of a generator of reasoning-gym, by its name; raises KeyError where there is none."""
    require(generator)

    @verifier(executor="loop", retry_on=(InfrastructureFailure,), version="1")
    async def verify(
        completion: Any,
        reference: Any,
        entry: Any = None,
        *,
        backend: str | None = None,
        timeout_s: float = 10.0,
        think_end: str = "</think>",
    ) -> Verdict:
        """What reasoning-gym says of the answer, from 0 to 1; it may pay a little for a wrong answer in the right form.

        `entry`: the row's column of that name. The answer is what stands in the last `<answer>` or `\\boxed{}`, else
        the text. `timeout_s`: of scoring, in a sandbox of the kind `backend`, None = the run's. An entry that is
        missing, or of another generator, abstains.
        """
        answer = answer_of(completion, think_end)
        if not isinstance(entry, str):
            return Verdict.abstain("the row has no column 'entry'; take it from the dataset of the same name")
        name, metadata = _labelled(entry)
        if name != generator:
            return Verdict.abstain(f"the row's entry is of {name or 'no generator'}, not of {generator}")
        if not answer or len(answer) > MAX_CHARACTERS:
            return Verdict.wrong("nothing was written" if not answer else f"more than {MAX_CHARACTERS} characters")
        if generator in _RULES:
            return _ruled(generator, answer, metadata)
        if not _harmless(answer, _EVALUATED.get(generator)):
            return Verdict.wrong("the answer holds more than its form needs", extracted=answer[:500])
        return await _scored(_box(backend, timeout_s, default_sandbox().backend), answer, entry)

    verify.__name__ = verify.__qualname__ = generator
    return verify


def _puzzle24(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"target": 24, "numbers": metadata["numbers"]}


_RULES: dict[str, tuple[Callable[..., Verdict], Callable[[Mapping[str, Any]], Mapping[str, Any]]]] = {
    "countdown": (countdown, dict),
    "puzzle24": (countdown, _puzzle24),
    "number_sorting": (
        sorted_numbers,
        lambda metadata: {"numbers": metadata["original_numbers"], "direction": metadata["direction"]},
    ),
}


def _ruled(generator: str, answer: str, metadata: Mapping[str, Any]) -> Verdict:
    rule, reference = _RULES[generator]
    try:
        return rule(answer, reference(metadata))
    except (BadReference, KeyError, TypeError) as error:
        return Verdict.abstain(f"the row's entry cannot be used: {error!r}")


def _harmless(answer: str, form: str | None) -> bool:
    if form is None:
        return True
    if form == "literal":
        return bool(_LITERAL.fullmatch(answer)) and "__" not in answer
    words = re.findall(r"[^\W\d]\w*", answer)
    plain = all(len(word) == 1 or word in _FUNCTIONS for word in words)
    return plain and bool(_FORMULA.fullmatch(answer)) and "_" not in answer


async def _scored(box: Sandbox, answer: str, entry: str) -> Verdict:
    _, _, packed = entry.partition(" ")
    given = json.dumps({"answer": answer, "entry": packed}).encode()
    result = await box.run(PROGRAM, stdin=given)
    if result.status in ("timeout", "memory"):
        return Verdict.wrong(f"scoring it ran into the limit: {result.status}", extracted=answer[:500])
    if not result.ok:
        raise InfrastructureFailure(f"reasoning-gym's scorer ended with {result.status}: {result.error_text[-300:]}")
    score = float(json.loads(result.text.splitlines()[-1])["score"])
    return Verdict(score, "" if score == 1 else "reasoning-gym says so", extracted=answer[:500])


@cache
def _box(backend: str | None, timeout_s: float, default: str) -> Sandbox:
    options = {"preload": ("reasoning_gym",)} if (backend or default) == "local" else {}
    return shared_sandbox(backend, limits=Limits(timeout_s=timeout_s, memory_mb=1024), **options)


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    name = str(entry["metadata"]["source_dataset"])
    metadata = json.dumps(entry["metadata"], default=str)
    # The name and the metadata stand in front as text: nothing is unpickled outside a sandbox.
    label = base64.b64encode(json.dumps([name, entry["metadata"]], default=str).encode()).decode()
    packed = base64.b64encode(pickle.dumps(entry)).decode()
    return {
        "prompt": entry["question"],
        # None where there are many: the verifier decides by the entry.
        "answer": "" if entry["answer"] is None else str(entry["answer"]),
        "metadata": metadata,
        "entry": f"{label} {packed}",
    }


def _labelled(entry: str) -> tuple[str, Mapping[str, Any]]:
    try:
        name, metadata = json.loads(base64.b64decode(entry.partition(" ")[0]))
        return str(name), dict(metadata)
    except (ValueError, TypeError):
        return "", {}


def _library() -> Any:
    try:
        import reasoning_gym
    except ImportError as error:
        from plaudit import PluginError

        raise PluginError(
            f"reasoning_gym: {error}; pip install 'plaudit-gym[reasoning]' (reasoning-gym 0.1.25)"
        ) from error
    return reasoning_gym
