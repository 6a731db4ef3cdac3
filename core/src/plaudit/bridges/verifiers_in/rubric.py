"""Environments of verifiers before 0.4 (its Environment and Rubric): a dataset, a rollout, functions with weights.

Their own `rollout` runs, with a client that asks the policy here, so that `setup_state`, `env_response`, tools, stop
conditions and cleanup are theirs. Their rubric scores, but for one thing: a reward function that fails is a failure
here, where verifiers takes it as 0.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError
from plaudit.types import Message, Verdict

from ..episodes import EpisodeError, Policy
from .client import client_of, schema_of
from .row_episode import RowEpisode
from .strict import scores_groups, strict


class RubricEnvironment:
    """An environment of verifiers 0.1.14 to 0.3."""

    def __init__(self, environment: Any, name: str) -> None:
        """Raises UsageError on a rubric that has nothing to score with, or of a release that is not known."""
        if not hasattr(environment, "rubric"):
            raise UsageError(
                f"verifiers: load_environment of {name!r} gave a {type(environment).__name__}; expected an Environment"
            )
        self._environment = environment
        self.name = name
        strict(environment.rubric)

    @property
    def needs_rollout(self) -> str | None:
        """Why one completion by itself cannot be judged; None where it can."""
        if _many_turns(self._environment):
            return "its episodes have several turns"
        return "it compares the rollouts of a group" if scores_groups(self._environment.rubric) else None

    def rows(self, split: str, limit: int | None) -> list[dict[str, Any]]:
        """The dataset's rows, each with its place."""
        dataset = self._dataset(split)
        count = len(dataset) if limit is None else min(limit, len(dataset))
        return [{**dataset[index], "task_index": index, "task_split": split} for index in range(count)]

    async def verdict(self, index: int, split: str, prompt: Any, said: list[Message]) -> Verdict:
        """The rubric's verdict on one completion of a row. `prompt`: what it was written to."""
        row = self._row(index, split)
        state = await self._environment.init_state({**row, "prompt": prompt or row["prompt"]}, client_of(Policy()), "")
        state["completion"], state["is_completed"] = _normalised(said), True
        return (await self.verdicts([state]))[0]

    async def verdicts(self, states: Sequence[Any]) -> list[Verdict]:
        """The rubric's verdicts on finished rollouts, which are a group where it scores groups."""
        rubric = self._environment.rubric
        try:
            if scores_groups(rubric):
                await rubric.score_group(list(states))
            else:
                for state in states:
                    await rubric.score_rollout(state)
        finally:
            for state in states:
                await rubric.cleanup(state)
        return [_verdict(state) for state in states]

    async def play(self, policy: Policy, index: int, split: str) -> Any:
        """One rollout of a row; the final state. Raises EpisodeError when it broke down for no fault of the model."""
        import verifiers

        state = await self._environment.rollout(self._row(index, split), client_of(policy), "policy", {})
        error = state.get("error")
        if error is not None and not isinstance(error, verifiers.ToolError):
            cause = error.__cause__ or error
            raise EpisodeError(f"the rollout failed: {type(error).__name__}: {cause}") from error
        return state

    @functools.cache  # noqa: B019 - an environment lives as long as the process
    def episode_class(self) -> type:
        """Its environment class here; one that scores groups has `score_group` in the place of `get_reward`."""
        tools = tuple(schema_of(tool) for tool in self._environment.tool_defs or [])
        base = GroupRubricEpisode if scores_groups(self._environment.rubric) else SingleRubricEpisode
        return type(self.name, (base,), {"loaded": self, "tool_schemas": tools})

    def _row(self, index: int, split: str) -> dict[str, Any]:
        dataset = self._dataset(split)
        if not 0 <= index < len(dataset):
            raise UsageError(f"verifiers: {self.name} has no task {index!r} in {split}; there are {len(dataset)}")
        return dict(dataset[index])

    def _dataset(self, split: str) -> Any:
        if split not in ("train", "test"):
            raise UsageError(f"verifiers: there is no split {split!r}; an environment has train and test")
        return self._environment.get_dataset() if split == "train" else self._environment.get_eval_dataset()


class RubricEpisode(RowEpisode):
    """One rollout of a RubricEnvironment."""

    loaded: RubricEnvironment

    async def program(self, policy: Policy, row: Mapping[str, Any]) -> Any:
        """The environment's own rollout of the row `task_index`."""
        return await self.loaded.play(policy, row["task_index"], row["task_split"])


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


def _many_turns(environment: Any) -> bool:
    import verifiers

    inner = getattr(environment, "env_map", None)
    if inner:
        return any(_many_turns(one) for one in inner.values())
    return not isinstance(environment, verifiers.SingleTurnEnv)


def _verdict(state: Any) -> Verdict:
    metrics = {name: float(value) for name, value in (state["metrics"] or {}).items()}
    return Verdict(float(state["reward"]), metrics=metrics)


def _normalised(messages: list[Message]) -> Any:
    from verifiers.utils.message_utils import normalize_messages

    return normalize_messages(messages, field_name="completion")
