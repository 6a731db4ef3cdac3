"""Taking assert-style tests (HumanEval, MBPP) apart, so that no expected value enters the candidate's sandbox."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plaudit_code.compare import same_value
from plaudit_code.inside.plain import Opaque

_WRAPPERS = frozenset(
    {"sorted", "list", "tuple", "set", "frozenset", "len", "str", "dict", "sum", "int", "float", "bool"}
)
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: same_value,
    ast.NotEq: lambda value, want: not isinstance(value, Opaque) and not same_value(value, want),
    ast.Is: lambda value, want: value is want,
    ast.IsNot: lambda value, want: not isinstance(value, Opaque) and value is not want,
    ast.In: lambda value, want: any(same_value(value, one) for one in want),
    ast.Lt: lambda value, want: _numbers(value, want) and value < want,
    ast.LtE: lambda value, want: _numbers(value, want) and value <= want,
    ast.Gt: lambda value, want: _numbers(value, want) and value > want,
    ast.GtE: lambda value, want: _numbers(value, want) and value >= want,
}
_MIRRORED = {ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}


@dataclass(frozen=True, slots=True)
class SplitAssert:
    """`expression` is evaluated beside the candidate; `passes` judges its value in the parent."""

    expression: str
    passes: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class WholeTest:
    """Test code that cannot be taken apart; it runs in a sandbox of its own. `names`: those it lacks."""

    source: str
    names: tuple[str, ...]


def take_apart(source: str, entry_point: str | None) -> list[SplitAssert | WholeTest]:
    """The tests in a piece of assert code: a HumanEval `check(candidate)`, or MBPP's asserts.

    Raises SyntaxError on code that does not parse.
    """
    tree = ast.parse(source)
    body = _check_body(tree)
    split = [_split(statement) for statement in (tree.body if body is None else body)]
    if split and all(part is not None for part in split):
        return [one for part in split if part is not None for one in part]
    return [WholeTest(source, _free_names(tree, entry_point))]


def _check_body(tree: ast.Module) -> list[ast.stmt] | None:
    """The statements of `def check(candidate)`, its docstring left out, where the module is little else."""
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    others = [node for node in tree.body if node not in checks and not isinstance(node, ast.Assign | ast.Expr)]
    if len(checks) != 1 or others:
        return None
    return [
        node for node in checks[0].body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]


def _split(statement: ast.stmt) -> list[SplitAssert] | None:
    """The parts of one assert whose conditions are calls of the candidate against literals; None if it is no such."""
    if not isinstance(statement, ast.Assert):
        return [] if isinstance(statement, ast.Pass) else None
    conditions = statement.test.values if _is_and(statement.test) else [statement.test]
    parts = [_condition(condition) for condition in conditions]
    return None if None in parts else [part for part in parts if part is not None]


def _is_and(node: ast.expr) -> bool:
    return isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)


def _condition(node: ast.expr) -> SplitAssert | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and _asks_candidate(node.operand):
        return SplitAssert(f"bool({ast.unparse(node.operand)})", lambda value: value is False)
    if _asks_candidate(node):
        return SplitAssert(f"bool({ast.unparse(node)})", lambda value: value is True)
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    left, operator, right = node.left, type(node.ops[0]), node.comparators[0]
    if _literal(left) is not _NOT_LITERAL and _asks_candidate(right) and operator in _MIRRORED:
        left, right = right, left
    want = _literal(right)
    if operator not in _COMPARISONS or want is _NOT_LITERAL or not _asks_candidate(left):
        return None
    compare = _COMPARISONS[operator]
    return SplitAssert(ast.unparse(left), lambda value: bool(compare(value, want)))


_NOT_LITERAL = object()


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NOT_LITERAL


def _asks_candidate(node: ast.expr) -> bool:
    """Whether the expression is a call of the candidate and nothing else, maybe inside `sorted(…)` and the like.

    Anything around the call could carry the expected value into the candidate's sandbox.
    """
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    name = node.func.id
    if name in _WRAPPERS:
        return len(node.args) == 1 and not node.keywords and _asks_candidate(node.args[0])
    return not hasattr(builtins, name)


def _free_names(tree: ast.Module, entry_point: str | None) -> tuple[str, ...]:
    nodes = list(ast.walk(tree))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    loaded = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    free = {name for name in loaded - bound if not hasattr(builtins, name)}
    return tuple(sorted(free | ({entry_point} if entry_point else set())))


def _numbers(value: Any, want: Any) -> bool:
    return all(isinstance(one, int | float) and one == one for one in (value, want))
