"""The table that says what will run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from plaudit.run.preflight import Prepared

if TYPE_CHECKING:
    from rich.table import Table


def plan_table(prepared: Prepared) -> Table:
    """A rich table: model, data, prompt lengths, rewards, batch and steps."""
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0), title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in plan_lines(prepared):
        table.add_row(name, text)
    return table


def plan_lines(prepared: Prepared) -> Iterator[tuple[str, str]]:
    """What the table says, as (what, text); "what" is empty on a line that continues."""
    run, model, config = prepared.run, prepared.model, prepared.config
    context = f", context {model.context_tokens:,} tokens" if model.context_tokens else ""
    adapter = f", {prepared.peft_config.peft_type.value} adapter" if prepared.peft_config is not None else ""
    yield "model", f"{run.model.path} ({model.architecture}{context}{adapter})"
    yield "data", _data(prepared)
    lengths = prepared.lengths
    yield (
        "prompts",
        (
            f"median {lengths.p50}, p90 {lengths.p90}, p99 {lengths.p99}, longest {lengths.longest} tokens; "
            f"completions up to {config.max_completion_length}"
        ),
    )
    for index, spec in enumerate(prepared.rewards):
        yield "rewards" if index == 0 else "", _reward(spec)
    if prepared.agents is not None:
        yield from _agents(prepared.agents)
    sizes = prepared.sizes
    rollouts = sizes.prompts * sizes.generations
    yield "batch", f"{sizes.prompts} prompts × {sizes.generations} completions = {rollouts} rollouts a generation"
    yield (
        "steps",
        f"{sizes.steps:,}{_epochs(sizes.epochs)}, learning rate {config.learning_rate:g}, loss {config.loss_type}",
    )
    yield "output", run.output_dir


def _agents(agents: Any) -> Iterator[tuple[str, str]]:
    """Each environment with its tools, then the tools that stand alone."""
    for place, kind in enumerate(agents.environments):
        tools = ", ".join(tool.name for tool in kind.tools) or "no tools"
        route = f"{kind.name}: " if kind.name is not None else ""
        yield "environments" if place == 0 else "", f"{route}{kind.type.__name__} ({tools})"
    if agents.tools:
        yield "tools", ", ".join(tool.name for tool in agents.tools)


def _epochs(epochs: float | None) -> str:
    return "" if epochs is None else f" ({epochs:.2g} epochs)"


def _data(prepared: Prepared) -> str:
    run = prepared.run
    if run.data is None and not run.tasks:
        parts = [f"made up by the environment: {len(prepared.train):,} a generation"]
    elif run.data is not None:
        parts = [f"{run.data.path or run.data.name}: {prepared.how_many}"]
    else:
        counts = ", ".join(f"{name} {count:,}" for name, count in prepared.task_rows.items())
        parts = [f"{len(prepared.train):,} rows ({counts})"]
    if prepared.heldout:
        parts.append(f"{len(prepared.heldout):,} held out")
    dropped = sum(prepared.dropped.values())
    if dropped:
        parts.append(f"{dropped:,} dropped as longer than max_prompt_tokens")
    return ", ".join(parts)


def _reward(spec: Any) -> str:
    component = spec.reward.component
    origin = (
        f"{component.distribution} {component.version}" if component.distribution else component.reference or "code"
    )
    weight = f"× {spec.weight:g}" if isinstance(spec.weight, (int, float)) else f"× schedule {spec.weight}"
    options = "".join(f", {name} = {value!r}" for name, value in component.options.items())
    when = "".join(f", where {name} = {value}" for name, value in (spec.when or {}).items())
    return f"{spec.name} {weight}  ({component.kind} from {origin}{options}{when})"
