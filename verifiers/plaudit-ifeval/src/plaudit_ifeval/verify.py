"""The `ifeval` verifier."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal

from plaudit import Verdict, completion_text, verifier

from plaudit_ifeval import content, formats, ifbench, keywords, language, lengths
from plaudit_ifeval.checks import CHECKS, CannotJudge

MODULES = (content, formats, ifbench, keywords, language, lengths)
"""The modules whose import files the checks."""


@verifier(executor="thread")
def verify_ifeval(
    completion: Any,
    reference: Any,
    kwargs: Any = None,
    *,
    credit: Literal["all", "fraction"] = "all",
    loose: bool = False,
    think_end: str = "</think>",
) -> Verdict:
    """1 when the text behind `think_end` keeps every instruction; with `credit = "fraction"`, the share that it keeps.

    `reference`: `{"instruction_id", "kwargs"}` for one instruction; for several `{"instruction_id_list", "kwargs"}`, or
    a list of ids beside a `kwargs` column. `loose` also tries the text without its first line, its last line and its
    asterisks, as IFEval's loose accuracy does. An unknown id or a missing argument abstains.
    """
    try:
        instructions = _instructions(reference, kwargs)
    except CannotJudge as error:
        return Verdict.abstain(str(error))
    text = completion_text(completion).rpartition(think_end)[2]
    versions = _loose_versions(text) if loose else [text]
    try:
        kept = [any(_keeps(version, *one) for version in versions) for one in instructions]
    except CannotJudge as error:
        return Verdict.abstain(str(error))
    share = sum(kept) / len(kept)
    broken = [name for (name, _), ok in zip(instructions, kept, strict=True) if not ok]
    score = share if credit == "fraction" else float(not broken)
    return Verdict(score, reason=f"breaks {', '.join(broken)}" if broken else "", metrics={"instructions_kept": share})


def _instructions(reference: Any, kwargs: Any) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(reference, Mapping):
        ids = reference.get("instruction_id_list", reference.get("instruction_id"))
        kwargs = reference.get("kwargs", kwargs)
    else:
        ids = reference
    if isinstance(ids, str):
        ids, kwargs = [ids], [kwargs] if isinstance(kwargs, Mapping) or kwargs is None else kwargs
    if not ids or not isinstance(ids, list | tuple):
        raise CannotJudge("the reference needs 'instruction_id' or 'instruction_id_list'")
    arguments = list(kwargs) if kwargs else [None] * len(ids)
    if len(arguments) != len(ids):
        raise CannotJudge(f"{len(ids)} instructions but {len(arguments)} kwargs")
    return [_checked(str(name), given) for name, given in zip(ids, arguments, strict=True)]


def _checked(name: str, given: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The instruction with the arguments that its check takes; those of other kinds are None in IFEval's own rows."""
    if name not in CHECKS:
        raise CannotJudge(f"unknown instruction {name!r}")
    parameters = list(inspect.signature(CHECKS[name]).parameters.values())[1:]
    present = {key: value for key, value in (given or {}).items() if value is not None}
    missing = [one.name for one in parameters if one.default is one.empty and one.name not in present]
    if missing:
        raise CannotJudge(f"{name} needs {', '.join(missing)}")
    return name, {one.name: present[one.name] for one in parameters if one.name in present}


def _keeps(text: str, name: str, arguments: dict[str, Any]) -> bool:
    if not text.strip():
        return False
    try:
        return CHECKS[name](text, **arguments)
    except (TypeError, AttributeError) as error:
        raise CannotJudge(f"{name} cannot use {arguments!r}: {error}"[:300]) from error


def _loose_versions(text: str) -> list[str]:
    lines = text.split("\n")
    cut = [lines, lines[1:], lines[:-1], lines[1:-1]]
    joined = ["\n".join(part).strip() for part in cut]
    return [version for one in joined for version in (one, one.replace("*", ""))]
