"""Tools, environments and rollout functions of a trainer, checked before a model is loaded."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...rollout.agent.kinds import EnvironmentKind, probe
from ...rollout.agent.spec import environment_spec_of, tool_spec_of
from ...rollout.agent.tools import Tool, require_distinct, standalone_tools
from ...scoring.spec import RewardSpec, environment_spec
from ..rows.datasets import column_names
from .agent_rows import EMPTY_PROMPT, first_of, some_lack_prompts, values_of, with_prompts

if TYPE_CHECKING:
    from ...rollout.chat import ToolChat


@dataclass(slots=True, eq=False, weakref_slot=True)
class Agents:
    """What of a run has many turns, or is written by a function of the user's.

    `kinds`: environments by the value of the column `environment`; the only one under None. A kind that is None has no
    environment. `probes`: the instances that were made to look at them, for the pool. `trainer`: what `rollout_func`
    is given.
    """

    tools: tuple[Tool, ...] = ()
    kinds: Mapping[str | None, EnvironmentKind | None] = field(default_factory=dict)
    rollout_func: Callable[..., Any] | None = None
    probes: list[tuple[EnvironmentKind, Any]] = field(default_factory=list)
    trainer: Any = None
    _rewards: list[RewardSpec] | None = None

    @property
    def converse(self) -> bool:
        """Whether rollouts have tools or environments."""
        return bool(self.tools or self.kinds)

    @property
    def routed(self) -> bool:
        """Whether rows name their environment."""
        return bool(self.kinds) and None not in self.kinds

    @property
    def environments(self) -> list[EnvironmentKind]:
        """The environments that there are."""
        return [kind for kind in self.kinds.values() if kind is not None]

    def kind_of(self, columns: Mapping[str, Any]) -> EnvironmentKind | None:
        """The environment of a row. Raises UsageError, which lists the names, on one that there is not."""
        if not self.kinds:
            return None
        name = columns.get("environment") if self.routed else None
        if name not in self.kinds:
            raise UsageError(f"environment = {name!r} in a row; there are: {_listed(self.kinds)}")
        return self.kinds[name]

    def tools_of(self, kind: EnvironmentKind | None) -> dict[str, Tool]:
        """The tools of a rollout: those that stand alone, and its environment's."""
        return {tool.name: tool for tool in (*self.tools, *(kind.tools if kind is not None else ()))}

    def reward_specs(self) -> list[RewardSpec]:
        """The rewards that environments give themselves: one a class, of weight 1."""
        if self._rewards is None:
            scoring = {kind.type: kind for kind in reversed(self.environments) if kind.scores}
            self._rewards = [
                environment_spec(made, timeout_s=kind.spec.timeout_s, backoff_s=kind.spec.backoff_s)
                for made, kind in reversed(scoring.items())
            ]
        return self._rewards

    def own_rewards(self, reward_funcs: Any) -> list[RewardSpec]:
        """Those of `reward_specs` that are not among the rewards which were given."""
        given = reward_funcs if isinstance(reward_funcs, (list, tuple)) else []
        taken = {id(one.reward) for one in given if isinstance(one, RewardSpec)}
        return [spec for spec in self.reward_specs() if id(spec.reward) not in taken]

    def chats(self, tokenizer: Any, options: Mapping[str, Any]) -> dict[EnvironmentKind | None, ToolChat]:
        """How each kind of rollout converses. Raises UsageError where the chat template cannot carry tools."""
        from ...rollout.chat import tool_chat

        return {
            kind: tool_chat(tokenizer, options, [tool.schema for tool in self.tools_of(kind).values()])
            for kind in list(self.kinds.values()) or [None]
        }

    def given_to(self, trainer: Any) -> Agents:
        """These, with the trainer that a rollout function is called with."""
        self.trainer = trainer
        return self

    def checkable(self, specs: Sequence[RewardSpec]) -> Sequence[RewardSpec]:
        """The rewards whose columns a dataset must have: a rollout function adds columns of its own."""
        return () if self.rollout_func is not None else specs

    def datasets(self, train: Any, evaluation: Any, args: Any) -> tuple[Any, Any]:
        """The datasets with a prompt in every row, which environments may do without.

        Raises UsageError on rows that name no environment that there is, lack a column that a reset needs, or whose
        prompt is no conversation; and without a dataset where none can do.
        """
        if not self.converse:
            return train, evaluation
        if train is None:
            train = self._no_rows(args)
        several = evaluation if isinstance(evaluation, Mapping) else {"": evaluation}
        checked = {name: None if one is None else self._checked(one, "eval_dataset") for name, one in several.items()}
        return self._checked(train, "train_dataset"), checked if isinstance(evaluation, Mapping) else checked[""]

    def _no_rows(self, args: Any) -> list[dict[str, Any]]:
        if not self.kinds:
            raise UsageError("train_dataset is missing; tools need prompts to be called from")
        if self.routed:
            raise UsageError(
                "train_dataset is missing; with several environments it needs a column 'environment' that names one of "
                f"{_listed(self.kinds)} in each row"
            )
        if args.max_steps <= 0:
            raise UsageError(
                "there is no train_dataset, so nothing says how long to train: set max_steps, or give a dataset"
            )
        return [{"prompt": EMPTY_PROMPT} for _ in range(args.generation_batch_size // args.num_generations)]

    def _checked(self, dataset: Any, label: str) -> Any:
        if hasattr(dataset, "__len__") and not len(dataset):
            raise UsageError(f"{label} has no rows; give it at least one, or leave it out")
        columns = column_names(dataset)
        for kind in self.environments:
            kind.check_columns(columns)
        if self.routed:
            self._check_routes(dataset, columns, label)
        if self.kinds and ("prompt" not in columns or some_lack_prompts(dataset)):
            return with_prompts(dataset)
        prompt = first_of(dataset)["prompt"] if "prompt" in columns else EMPTY_PROMPT
        if not isinstance(prompt, list) or not prompt:
            what = "text" if isinstance(prompt, str) else repr(prompt)
            raise UsageError(
                f"{label}: prompts are {what}, but tools and environments need conversations: "
                '[{"role": "user", "content": …}]'
            )
        return dataset

    def _check_routes(self, dataset: Any, columns: Sequence[str], label: str) -> None:
        if "environment" not in columns:
            raise UsageError(
                f"{label} has no column 'environment'; each row must name one of {_listed(self.kinds)} there"
            )
        for name in values_of(dataset, "environment"):
            if name not in self.kinds:
                raise UsageError(f"{label} has rows with environment = {name!r}; there are: {_listed(self.kinds)}")


def plan_agents(tools: Any = None, environment_factory: Any = None, rollout_func: Any = None) -> Agents:
    """What a trainer was given, checked; one instance of each environment is made for that.

    `tools`: functions or ToolSpecs. `environment_factory`: a class, factory, EnvironmentSpec or name, or a dict of them
    by name, in which None means no environment; or what this function made before. Raises UsageError.
    """
    if isinstance(environment_factory, Agents):
        return environment_factory
    if rollout_func is not None:
        if tools or environment_factory is not None:
            raise UsageError("rollout_func writes whole rollouts; leave tools and environment_factory out")
        _check_rollout_func(rollout_func)
        return Agents(rollout_func=rollout_func)
    if tools is not None and not isinstance(tools, (list, tuple)):
        raise UsageError(f"tools is a {type(tools).__name__}; expected a list of functions")
    agents = Agents(standalone_tools([tool_spec_of(tool) for tool in tools or ()]))
    weakref.finalize(agents, close_probes, agents.probes)
    if environment_factory is None:
        return agents
    named = environment_factory if isinstance(environment_factory, Mapping) else {None: environment_factory}
    if not named:
        raise UsageError("environment_factory is empty; give at least one environment, or leave it out")
    agents.kinds = {name: None if given is None else _probed(agents, name, given) for name, given in named.items()}
    return agents


def _check_rollout_func(rollout_func: Any) -> None:
    if not callable(rollout_func):
        raise UsageError(f"rollout_func is a {type(rollout_func).__name__}; expected a function (prompts, trainer)")
    try:
        signature = inspect.signature(rollout_func)
    except ValueError:  # some functions that are not written in Python have none
        return
    try:
        signature.bind([], None)
    except TypeError:
        raise UsageError(
            f"rollout_func takes {signature}, but it is called with two arguments, (prompts, trainer); make it so"
        ) from None


def _probed(agents: Agents, name: str | None, given: Any) -> EnvironmentKind:
    kind, instance = probe(name, environment_spec_of(given))
    agents.probes.append((kind, instance))
    if agents.tools and kind.replies is not None and kind.replies.takes_calls:
        raise UsageError(
            f"{kind.label} answers the calls of its turns itself, so tools cannot stand beside it; leave "
            f"{agents.tools[0].name!r} out"
        )
    require_distinct([*agents.tools, *kind.tools], f"{kind.label} beside the tools that stand alone")
    return kind


def close_probes(probes: list[tuple[EnvironmentKind, Any]]) -> None:
    """Close what no pool took over, because the trainer could not be made."""
    while probes:
        kind, instance = probes.pop()
        if kind.closes:
            returned = instance.close()
            if asyncio.iscoroutine(returned):
                asyncio.run(returned)


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(sorted(repr(name) for name in names))
