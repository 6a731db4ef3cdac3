"""From a reference to the one installed entry point, module or file that it means, or an error that says what to do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plaudit.errors import PluginError, UsageError
from plaudit.plugins.building import Origin
from plaudit.plugins.importing import import_attribute, import_file, import_module, module_exists
from plaudit.plugins.known import FIRST_PARTY, distribution_with
from plaudit.plugins.reference import Reference
from plaudit.plugins.registry import PluginInfo, list_plugins, normalised


def resolve(text: str, kinds: Sequence[str]) -> tuple[Any, Origin]:
    """The object behind a reference, imported, and where it came from.

    kinds: those that may be named here; when one distribution offers a name under several, the first counts.
    Raises UsageError or PluginError.
    """
    reference = Reference.parse(text)
    what = kinds[0]
    if reference.path is not None:
        label = f"{what} '{reference.text}'"
        again = f"{Path(reference.path).expanduser().absolute()}:{reference.name}"
        found = import_file(reference.path, reference.name, what=label)
        return found, Origin(reference.name.rpartition(".")[2], label, again)
    if reference.url is not None:
        from plaudit.plugins.remote import RemoteReward

        return RemoteReward(reference.url, reference.name), Origin(reference.name, f"{what} '{text}'", reference.text)
    info = find(reference, kinds)
    if info is not None:
        return import_plugin(info, reference.text)
    if reference.owner is not None and is_direct(reference):
        label = f"{what} '{reference.text}'"
        _refuse_version(reference)
        found = import_attribute(reference.owner, reference.name, what=label)
        return found, Origin(reference.name.rpartition(".")[2], label, reference.text)
    raise PluginError(unknown_message(reference, kinds))


def is_direct(reference: Reference) -> bool:
    """Whether a reference that names no entry point leads to a file or module by itself."""
    return (
        reference.path is not None
        or reference.url is not None
        or (reference.owner is not None and module_exists(reference.owner))
    )


def find(reference: Reference, kinds: Sequence[str]) -> PluginInfo | None:
    """The entry point that a reference means, None when there is none of that name.

    Raises PluginError when two distributions offer it, or when the version is not met.
    """
    plugins = list_plugins(kinds)
    matches = [plugin for plugin in plugins if plugin.name == reference.full_name]
    if not matches and reference.owner:
        owner = normalised(reference.owner)
        matches = [p for p in plugins if p.name == reference.name and normalised(p.distribution) == owner]
    if not matches and reference.owner:
        matches = _members(reference, plugins)
    if not matches:
        return None
    distributions = sorted({plugin.distribution for plugin in matches})
    if len(distributions) > 1:
        raise PluginError(_clash(reference, matches, distributions))
    chosen = min(matches, key=lambda plugin: list(kinds).index(plugin.kind))
    if not reference.accepts(chosen.version):
        raise PluginError(
            f"'{reference.text}' wants {reference.wanted}, found {chosen.distribution} {chosen.version}; "
            f"pip install '{chosen.distribution}{reference.specifier}'"
        )
    return chosen


def _members(reference: Reference, plugins: Sequence[PluginInfo]) -> list[PluginInfo]:
    """What families offer under `family:name` or `distribution:family:name`."""
    family, _, member = reference.full_name.rpartition(":")
    distribution, _, short = family.partition(":")
    found = [p for p in plugins if p.name == f"{family}:*"]
    if not found and short:
        found = [
            p for p in plugins if p.name == f"{short}:*" and normalised(p.distribution) == normalised(distribution)
        ]
    return [replace(p, name=f"{p.name[:-1]}{member}", member=member) for p in found]


def import_plugin(info: PluginInfo, reference: str | None = None) -> tuple[Any, Origin]:
    """Import the object of an entry point. Raises PluginError naming plugin, distribution and cause."""
    label = f"{info.kind} '{info.name}' ({info.distribution} {info.version})"
    module, _, attribute = info.value.partition("[")[0].partition(":")
    if attribute:
        found = import_attribute(module.strip(), attribute.strip(), what=label)
    else:
        found = import_module(module.strip(), what=label)
    if info.member is not None:
        try:
            found = found(info.member)
        except LookupError as error:
            raise PluginError(f"{label} does not exist: {error.args[0] if error.args else error}") from error
    return found, Origin(info.name, label, reference or info.reference, info.distribution, info.version)


def _refuse_version(reference: Reference) -> None:
    if reference.wanted:
        raise UsageError(
            f"'{reference.text}': a version can be asked of an installed plugin, not of the module {reference.owner}"
        )


def _clash(reference: Reference, matches: list[PluginInfo], distributions: list[str]) -> str:
    offers = " and ".join(f"{d} {next(m.version for m in matches if m.distribution == d)}" for d in distributions)
    choices = " or ".join(f"'{d}:{reference.name}{reference.wanted}'" for d in distributions)
    return f"{len(distributions)} distributions offer '{reference.name}': {offers}; write {choices}"


def unknown_message(reference: Reference, kinds: Sequence[str]) -> str:
    """One line: what is not there, the closest that is, what there is, and what to install."""
    plugins = list_plugins(kinds)
    names = sorted({plugin.name for plugin in plugins})
    noun = " or ".join(kinds) if len(kinds) <= 2 else "plugin"
    parts = [f"no {noun} named '{reference.name}'"]
    if reference.owner is not None:
        parts = [_unknown_owner(reference, noun)]
    install = distribution_with(reference.name) or distribution_with(f"{reference.owner}:*")
    near = [] if install or reference.name in names else difflib.get_close_matches(reference.name, names, n=1)
    if near:
        parts.append(f"did you mean {_with_origin(near[0], plugins)}?")
    elif reference.owner is not None and reference.name in names:
        parts.append(f"there is {_with_origin(reference.name, plugins)}")
    if install is None and not near:
        close = difflib.get_close_matches(reference.name, [n for ours in FIRST_PARTY.values() for n in ours], n=1)
        install = distribution_with(close[0]) if close else None
    if install and install not in {plugin.distribution for plugin in plugins}:
        parts.append(f"pip install {install}")
    parts.append(f"installed: {', '.join(names) or 'none'}")
    if Path(f"{reference.name}.py").is_file():
        parts.append(f"for a file write ./{reference.name}.py:function")
    return "; ".join(parts).replace("?; ", "? ")


def _unknown_owner(reference: Reference, noun: str) -> str:
    owner = reference.owner or ""
    offered = [p for p in list_plugins() if normalised(p.distribution) == normalised(owner)]
    if offered:
        names = ", ".join(sorted({f"{plugin.name} ({plugin.kind})" for plugin in offered}))
        return f"{owner} has no {noun} named '{reference.name}' (it has {names})"
    return f"'{reference.text}': neither an installed distribution nor a module is called '{owner}'"


def _with_origin(name: str, plugins: Sequence[PluginInfo]) -> str:
    origins = {f"{plugin.distribution} {plugin.version}" for plugin in plugins if plugin.name == name}
    return f"'{name}' ({', '.join(sorted(origins))})"
