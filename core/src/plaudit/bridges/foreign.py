"""Rewards of other systems by name: `verl` for a compute_score function, `nemo_gym` for a `/verify` server.

TRL's reward functions need no bridge: they are named by reference (`package.module:function`).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.declare import verifier
from plaudit.plugins.resolve import resolve
from plaudit.types import Text, Verdict

from .http import JSONClient, ServerError, number_of, part_of

_SCORES = ("score", "acc", "reward")


@verifier
class VerlFunction:
    """A verl `compute_score` as a verifier.

    `function`: `package.module:name`, verl's `pkg://package.module:name`, or `./file.py:name`. `reward_kwargs`: what it
    is called with besides. `data_source`: where rows have no such column. The reference is its `ground_truth`, the
    column `extra_info` goes over as it is. A dict answer gives its `score`; its other numbers become metrics.
    """

    def __init__(self, function: str, reward_kwargs: Mapping[str, Any] | None = None, data_source: str = "") -> None:
        reference = function.removeprefix("pkg://").replace("/", ".") if function.startswith("pkg://") else function
        self._function = resolve(reference, ("reward",))[0]
        if not callable(self._function):
            raise UsageError(f"verl: {function!r} is a {type(self._function).__name__}; expected a function")
        parameters = inspect.signature(self._function).parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        self._takes = lambda name: takes_any or name in parameters
        self._more = dict(reward_kwargs or {})
        self._source = data_source

    async def verify(
        self, completion: str, reference: Any, data_source: str | None = None, extra_info: Any = None
    ) -> Verdict:
        """The function's score of one completion. Raises UsageError on an answer without a number."""
        offered = {"data_source": data_source or self._source, "solution_str": completion, "ground_truth": reference}
        offered["extra_info"] = extra_info
        told = self._function(**{name: offered[name] for name in offered if self._takes(name)}, **self._more)
        if inspect.isawaitable(told):
            told = await told
        return verdict_of(told, "verl function")


@verifier(granularity="rollout", executor="loop", deterministic=False)
class NemoGymVerify:
    """A NeMo-Gym resources server's `/verify` as a verifier.

    `url`: of the server. The row's columns go over beside an OpenAI response that holds the completion. A masked
    sample abstains with the server's reason; `reward_components` become metrics.
    """

    def __init__(self, url: str, timeout_s: float = 60.0) -> None:
        self._client = JSONClient(url, timeout_s)

    async def verify(self, completion: str, prompt: Any = "", **columns: Any) -> Verdict:
        """Ask the server about one completion.

        Raises ConnectionError when it is down, ServerError on its errors and on a reward that is no finite number.
        """
        told = await self._client.post("/verify", {**columns, **verify_request(completion, prompt)})
        where = f"{self._client.url}/verify"
        if not isinstance(told, Mapping):
            raise ServerError(f"{where} answered {told!r:.80}; expected an object with a reward")
        components = told.get("reward_components") or {}
        metrics = {
            str(name): number_of(value, f"reward_components.{name}", where)
            for name, value in part_of({"reward_components": components}, "reward_components", dict, where).items()
            if value is not None
        }
        if told.get("mask_sample"):
            why = told.get("failure_reason") or told.get("failure_kind") or "the server masked it"
            return Verdict.abstain(str(why), metrics=metrics)
        return Verdict(number_of(told.get("reward"), "reward", where), metrics=metrics)


def verify_request(completion: str, prompt: Text) -> dict[str, Any]:
    """The two fields of a `/verify` request that are not columns: what was asked, and an OpenAI response."""
    content = [{"type": "output_text", "text": completion, "annotations": []}]
    message = {"id": "msg", "type": "message", "role": "assistant", "status": "completed", "content": content}
    response = {
        "id": "resp",
        "object": "response",
        "created_at": 0,
        "model": "policy",
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }
    return {"responses_create_params": {"input": prompt}, "response": response}


def verdict_of(told: Any, what: str) -> Verdict:
    """A number, bool, None, or a mapping with a score, as a Verdict. Raises UsageError on anything else."""
    if told is None:
        return Verdict.abstain(f"the {what} gave None")
    if isinstance(told, Mapping):
        name = next((one for one in _SCORES if one in told), None)
        if name is None:
            raise UsageError(f"the {what} gave {told!r:.80}; expected a 'score' in it")
        others = {key: value for key, value in told.items() if key != name}
        numbers = {key: float(value) for key, value in others.items() if isinstance(value, (int, float))}
        texts = {key: value for key, value in others.items() if isinstance(value, str)}
        return replace(verdict_of(told[name], f"{what}'s {name}"), metrics=numbers, columns=texts)
    if isinstance(told, (int, float)) or hasattr(told, "__float__"):
        return Verdict(float(told))
    raise UsageError(f"the {what} gave {told!r:.80}; expected a number or a mapping with a 'score'")
