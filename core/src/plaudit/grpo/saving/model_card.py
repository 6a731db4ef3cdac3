"""The README of a trained model: from what, with which rewards, with which versions, and how it went."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...plugins.fingerprint import installed_version

LIBRARIES = ("plaudit", "transformers", "torch", "accelerate", "datasets", "peft", "vllm")
# Where a run lies and what it prints says nothing of the model, and may be nobody's business.
_PRIVATE = ("_dir", "token", "report_to", "run_name", "disable_tqdm", "local_rank", "hub_", "push_to_hub", "use_cpu")
_POINTS = 11
_SHOWN = ("loss", "reward", "kl", "entropy", "completions/mean_length")


def model_card(
    *,
    name: str,
    base: str | None,
    dataset: str | Sequence[str] | None,
    tags: Sequence[str],
    specs: Iterable[Any],
    args: Any,
    history: Sequence[Mapping[str, Any]],
    folder: Path,
    library: str = "transformers",
    sections: Sequence[str] = (),
) -> str:
    """The text of README.md. `specs`: the run's RewardSpecs. `history`: what was logged. `folder`: where it goes.

    `library`: what loads the model. `sections`: more of the text, before the configuration. The learning curve is
    the folder's curve.png, or a table where there is none.
    """
    parts = [
        _front_matter(model_name=name, base_model=base, datasets=dataset, library_name=library, tags=tags),
        f"# {name}",
        f"{base or 'A model'} trained with GRPO (arXiv 2402.03300) by Plaudit.",
        "## Rewards\n\n" + table(("reward", "weight", "from", "version"), map(_reward, specs)),
    ]
    results = _results(history)
    if results:
        parts.append("## Results\n\n" + table(("metric", "first", "last", "step"), results))
    if (folder / "curve.png").is_file():
        parts.append("![The learning curve](curve.png)")
    elif points := _curve(history):
        parts.append("## Curve\n\n" + table(points[0], points[1:]))
    parts += sections
    parts.append("## Configuration\n\n" + table(("field", "value"), _changed(args)))
    versions = [(one, version) for one in LIBRARIES if (version := installed_version(one)) is not None]
    parts.append("## Versions\n\n" + table(("package", "version"), versions))
    return "\n\n".join(parts) + "\n"


def _front_matter(*, tags: Iterable[str], **about: Any) -> str:
    from huggingface_hub import ModelCardData

    labels = list(dict.fromkeys(["grpo", "plaudit", *tags]))
    data = ModelCardData(**about, pipeline_tag="text-generation", tags=labels)
    return f"---\n{data.to_yaml()}\n---"


def _reward(spec: Any) -> tuple[str, str, str, str]:
    component = spec.reward.component
    origin = component.distribution or component.reference or "a function of the training script"
    version = component.version or component.declaration.version or ""
    return spec.name, str(spec.weight), origin, version


def _results(history: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    names = dict.fromkeys(name for line in history for name in line if _is_result(name))
    found = []
    for name in names:
        points = [(line["step"], line[name]) for line in history if isinstance(line.get(name), (int, float))]
        if points:
            found.append((name, f"{points[0][1]:.4g}", f"{points[-1][1]:.4g}", str(points[-1][0])))
    return found


def _curve(history: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The rewards at up to `_POINTS` steps, evenly spaced, below a head; empty where none was logged."""
    lines = [line for line in history if isinstance(line.get("reward"), (int, float))]
    means = dict.fromkeys(name for line in lines for name in line if name.startswith("rewards/") and _is_result(name))
    names = ["reward", *means]
    if not lines:
        return []
    places = sorted({round(place * (len(lines) - 1) / (_POINTS - 1)) for place in range(_POINTS)})
    chosen = [lines[place] for place in places]
    rows = [[str(line["step"]), *(f"{line.get(name, math.nan):.4g}" for name in names)] for line in chosen]
    return [["step", *names], *rows]


def _is_result(name: str) -> bool:
    bare = name.removeprefix("eval_")
    return bare in _SHOWN or (bare.startswith("rewards/") and bare.endswith("/mean"))


def _changed(args: Any) -> list[tuple[str, str]]:
    """The fields that differ from their defaults."""
    found = []
    for field in dataclasses.fields(args):
        value = getattr(args, field.name)
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if field.init and not missing and value != default and not any(part in field.name for part in _PRIVATE):
            found.append((field.name, str(getattr(value, "value", value))))
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
