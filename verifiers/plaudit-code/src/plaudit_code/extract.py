"""Which program a completion offers.

In Python, the rules are: the last block that defines what is asked for (else the last block) counts; where it uses
names that only earlier blocks define, those go in front; a text without blocks counts if it compiles; console prompts
are stripped and no-break spaces are blanks.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings

from plaudit_json import fences

_TAGS = {
    "python": ("python", "python3", "py", "py3", "python2", "pycon"),
    "bash": ("bash", "sh", "shell", "zsh"),
    "node": ("javascript", "js", "node", "nodejs"),
    "cpp": ("cpp", "c++", "cc", "cxx"),
}


def find_program(text: str, *, language: str = "python", defines: str | None = None) -> str | None:
    """The program in `text`, or None where it offers none in this language. `defines`: the function asked for."""
    blocks = fences(text)
    tags = _TAGS.get(language, (language,))
    ours = [block.body for block in blocks if block.tag.strip("{}.").split(",")[0] in tags]
    if not ours:
        ours = [block.body for block in blocks if not block.tag]
    if language != "python":
        return ours[-1] if ours else None if blocks else text
    if not ours and blocks:
        return None
    cleaned = [clean for body in ours or [text] if (clean := _cleaned(body)) is not None]
    if not cleaned:
        return ours[-1] if ours else None
    return _chosen(cleaned, defines)


def _chosen(blocks: list[str], defines: str | None) -> str:
    defined = [_defined(block) for block in blocks]
    wanted = defines.split(".")[0] if defines else None
    place = len(blocks) - 1
    if wanted:
        having = [i for i, names in enumerate(defined) if wanted in names or "Solution" in names]
        place = having[-1] if having else place
    missing = _used(blocks[place]) - defined[place] - set(dir(builtins))
    helpers = []
    for earlier in range(place - 1, -1, -1):
        if missing & defined[earlier]:
            helpers.insert(0, blocks[earlier])
            missing = (missing - defined[earlier]) | (_used(blocks[earlier]) - set(dir(builtins)))
    return "\n".join([*helpers, blocks[place]])


def _cleaned(source: str) -> str | None:
    """The source in a form that compiles, or None."""
    for version in (source, _without_prompts(source), _without_wide_blanks(source), _dedented(source)):
        if version is not None and _tree(version) is not None:
            return version
    return None


def _without_prompts(source: str) -> str | None:
    lines = [line for line in source.split("\n") if line.startswith((">>>", "..."))]
    return "\n".join(re.sub(r"^(?:>>>|\.\.\.) ?", "", line) for line in lines) if lines else None


def _without_wide_blanks(source: str) -> str:
    return re.sub(r"[\u00a0\u2000-\u200a\u202f\u205f\u3000\ufeff]", " ", source)


def _dedented(source: str) -> str:
    import textwrap

    return textwrap.dedent(_without_wide_blanks(source))


def _tree(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _defined(source: str) -> set[str]:
    """The names that a module binds at its top level, also inside `if` and `try`."""
    tree = _tree(source)
    names: set[str] = set()
    waiting = list(tree.body) if tree else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        else:
            names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return names


def _used(source: str) -> set[str]:
    tree = _tree(source)
    nodes = list(ast.walk(tree)) if tree else []
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name.id for name in names if isinstance(name.ctx, ast.Load)} - bound
