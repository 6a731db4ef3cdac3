"""Environments of verifiers before 0.4 (its Environment and Rubric): a dataset, a rollout, functions with weights.

Their own `rollout` runs, with a client that asks the policy here, so that `setup_state`, `env_response`, tools, stop
conditions and cleanup are theirs. Their rubric scores, but for one thing: a reward function that fails is a failure
here, where verifiers takes it as 0.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError
from plaudit.types import Message, Verdict

from .episodes import EpisodeError, EpisodeOver, Policy, ProgramEpisode, Written

_NEEDED = ("_call_individual_reward_func", "_call_group_reward_func", "score_objects", "group_score_objects")


class NoScore(EpisodeError):
    """A reward function of a rubric gave no number."""


class RubricEnvironment:
    """An environment of verifiers 0.1.14 to 0.3."""

    def __init__(self, environment: Any, name: str) -> None:
        """Raises UsageError on a rubric that has nothing to score with, or of a release that is not known."""
        self.environment = environment
        self.name = name
        strict(environment.rubric)

    @property
    def many_turns(self) -> bool:
        """Whether its episodes have more than one turn."""
        import verifiers

        return not isinstance(self.environment, verifiers.SingleTurnEnv)

    def rows(self, split: str, limit: int | None) -> list[dict[str, Any]]:
        """The dataset's rows, each with its place."""
        dataset = self._dataset(split)
        count = len(dataset) if limit is None else min(limit, len(dataset))
        return [{**dataset[index], "task_index": index, "task_split": split} for index in range(count)]

    async def verdict(self, prompt: Any, said: list[Message], columns: Mapping[str, Any]) -> Verdict:
        """The rubric's verdict on one completion of a row."""
        state = await self.environment.init_state({"prompt": prompt, **columns}, client_of(Policy()), "policy", {})
        normalised = type(state["prompt"])() if not said else _normalised(said)
        state["completion"], state["is_completed"] = normalised, True
        return (await self.verdicts([state]))[0]

    async def verdicts(self, states: Sequence[Any]) -> list[Verdict]:
        """The rubric's verdicts on finished rollouts, which are a group where it scores groups."""
        rubric = self.environment.rubric
        if getattr(rubric, "has_group_rewards", False):
            await rubric.score_group(list(states))
        else:
            for state in states:
                await rubric.score_rollout(state)
        for state in states:
            await rubric.cleanup(state)
        return [_verdict(state) for state in states]

    async def play(self, policy: Policy, index: int, split: str) -> Any:
        """One rollout of a row; the final state. Raises EpisodeError when it broke down for no fault of the model."""
        import verifiers

        row = dict(self._dataset(split)[index])
        state = await self.environment.rollout(row, client_of(policy), "policy", {})
        error = state.get("error")
        if error is not None and not isinstance(error, verifiers.ToolError):
            cause = error.__cause__ or error
            raise EpisodeError(f"the rollout failed: {type(error).__name__}: {cause}") from error
        return state

    def episode_class(self) -> type:
        """Its environment class here; one that scores groups has `score_group` in the place of `get_reward`."""
        tools = [_schema(tool) for tool in self.environment.tool_defs or []]
        groups = getattr(self.environment.rubric, "has_group_rewards", False)
        base = GroupRubricEpisode if groups else SingleRubricEpisode
        return type(self.name, (base,), {"loaded": self, "tool_schemas": tuple(tools)})

    def _dataset(self, split: str) -> Any:
        if split not in ("train", "test"):
            raise UsageError(f"verifiers: there is no split {split!r}; an environment has train and test")
        return self.environment.get_dataset() if split == "train" else self.environment.get_eval_dataset()


class RubricEpisode(ProgramEpisode):
    """One rollout of a RubricEnvironment."""

    loaded: RubricEnvironment

    async def program(self, policy: Policy, row: Mapping[str, Any]) -> Any:
        return await self.loaded.play(policy, row["task_index"], row.get("task_split", "train"))


class SingleRubricEpisode(RubricEpisode):
    """Scored by itself."""

    async def get_reward(self) -> Verdict:
        """The rubric's verdict. Raises EpisodeError on a rollout that broke down."""
        return (await self.loaded.verdicts([await self.outcome()]))[0]


class GroupRubricEpisode(RubricEpisode):
    """Scored with the others of its group, as a function of the rubric compares them."""

    @classmethod
    async def score_group(cls, environments: Sequence[RubricEpisode], completions: Sequence[str]) -> list[Verdict]:
        """The rubric's verdicts; a rollout that broke down abstains and the others are compared without it."""
        states: dict[int, Any] = {}
        verdicts: dict[int, Verdict] = {}
        for place, one in enumerate(environments):
            try:
                states[place] = await one.outcome()
            except Exception as error:
                verdicts[place] = Verdict.abstain(f"{type(error).__name__}: {error}")
        if states:
            found = await cls.loaded.verdicts(list(states.values()))
            verdicts |= dict(zip(states, found, strict=True))
        return [verdicts[place] for place in range(len(environments))]


def strict(rubric: Any) -> None:
    """Make failures of a rubric's functions raise. Raises UsageError where nothing in it scores, or it is not known."""
    import verifiers

    parts = list(getattr(rubric, "rubrics", None) or [rubric])
    missing = [name for part in parts for name in _NEEDED if not hasattr(part, name)]
    if missing:
        raise UsageError(f"verifiers: the rubric has no {missing[0]}; tested are verifiers 0.1.14 and 0.3.1")
    plain = all(type(part).score_rollout is verifiers.Rubric.score_rollout for part in parts)
    if plain and not any(weight for part in parts for weight in part.weights):
        raise UsageError("verifiers: the rubric has no function with a weight, so every reward would be 0")
    for part in parts:
        for name, call in (("_call_individual_reward_func", _call_one), ("_call_group_reward_func", _call_group)):
            setattr(part, name, functools.partial(call, part, getattr(part, name)))


async def _call_one(rubric: Any, original: Any, func: Any, state: Any) -> float:
    if not _weighs(rubric, func):
        return float(await original(func=func, state=state))
    return _number(await _called(func, rubric.score_objects(state)), func)


async def _call_group(rubric: Any, original: Any, func: Any, states: Sequence[Any]) -> list[float]:
    if not _weighs(rubric, func):
        return list(await original(func=func, states=states))
    told = await _called(func, rubric.group_score_objects(list(states)))
    if not isinstance(told, (list, tuple)) or len(told) != len(states):
        raise NoScore(f"{func.__name__} gave {told!r:.60}; expected a list of {len(states)} numbers")
    return [_number(one, func) for one in told]


def _weighs(rubric: Any, func: Any) -> bool:
    """Whether a function's number counts; what weighs 0 only watches."""
    return any(one is func and weight for one, weight in zip(rubric.funcs, rubric.weights, strict=True))


def _number(told: Any, func: Any) -> float:
    number = isinstance(told, (int, float)) or hasattr(told, "__float__")
    if not number or not math.isfinite(float(told)):
        raise NoScore(f"{func.__name__} gave {told!r:.60}; expected a finite number")
    return float(told)


async def _called(function: Any, offered: Mapping[str, Any]) -> Any:
    """Call a function with those of the offered arguments that it names."""
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    told = function(**{name: value for name, value in offered.items() if takes_any or name in parameters})
    return await told if inspect.isawaitable(told) else told


def _verdict(state: Any) -> Verdict:
    metrics = {name: float(value) for name, value in (state["metrics"] or {}).items()}
    return Verdict(float(state["reward"]), metrics=metrics)


def _normalised(messages: list[Message]) -> Any:
    from verifiers.utils.message_utils import normalize_messages

    return normalize_messages(messages, field_name="completion")


def _schema(tool: Any) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def client_of(policy: Policy) -> Any:
    """A client of verifiers that asks the policy."""
    from verifiers.clients import Client

    import verifiers

    class PolicyClient(Client):
        """Asks for turns; what a request to a model's server is made of is not needed."""

        def setup_client(self, config: Any) -> Any:
            return policy

        async def get_response(self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **_: Any) -> Any:
            try:
                asked = [_dumped(message) for message in prompt]
                written = await policy.ask(asked, [_schema(tool) for tool in tools or []])
            except EpisodeOver as error:
                raise verifiers.OverlongPromptError(str(error)) from error
            return _response(written)

        async def to_native_tool(self, tool: Any) -> Any:
            return tool

        async def to_native_prompt(self, messages: Any) -> Any:
            return messages, {}

        async def get_native_response(self, prompt: Any, model: str, *more: Any, **_: Any) -> Any:
            raise NotImplementedError("only get_response is asked")

        async def raise_from_native_response(self, response: Any) -> None:
            return None

        async def from_native_response(self, response: Any) -> Any:
            return response

        async def close(self) -> None:
            return None

    return PolicyClient(policy)


def _dumped(message: Any) -> Message:
    """A message of verifiers in OpenAI's form."""
    found = {name: value for name, value in message.model_dump().items() if value is not None}
    if found.get("tool_calls"):
        found["tool_calls"] = [
            {"id": one["id"], "type": "function", "function": {"name": one["name"], "arguments": one["arguments"]}}
            for one in found["tool_calls"]
        ]
    return found


def _response(written: Written) -> Any:
    """A turn as verifiers reads a response."""
    from verifiers.types import Response, ResponseMessage, ToolCall, Usage

    said, count = written.message, len(written.completion_ids)
    calls = [ToolCall(id=one["id"], **one["function"]) for one in said.get("tool_calls") or []]
    message = ResponseMessage(
        content=said["content"],
        reasoning_content=said.get("reasoning_content"),
        tool_calls=calls or None,
        finish_reason=written.finish_reason,
        is_truncated=written.finish_reason == "length",
    )
    usage = Usage(
        prompt_tokens=written.context_tokens,
        reasoning_tokens=0,
        completion_tokens=count,
        total_tokens=written.context_tokens + count,
    )
    return Response(id="turn", created=0, model="policy", usage=usage, message=message)
