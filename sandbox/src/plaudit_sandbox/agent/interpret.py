"""Running Python source in this interpreter as `python main.py` would, and commands in place of it."""

from __future__ import annotations

import ast
import atexit
import builtins
import io
import linecache
import os
import shutil
import sys
import traceback
import types
from collections.abc import Sequence
from typing import Any

FILE = "main.py"


class MissingToolchain(Exception):
    """The program of a command is not installed here."""


def find_command(command: Sequence[str], search: str | None = None) -> str:
    """The path of a command's program, in `search` or else in PATH. Raises MissingToolchain where there is none."""
    found = shutil.which(command[0], path=search)
    if found is None:
        raise MissingToolchain(f"{command[0]!r} is not installed in this sandbox")
    return found


def settle(home: str) -> None:
    """Make this process what every program finds: its environment, its streams, an empty `__main__`.

    Done once, in the agent, because a fork pays for each object that it touches. The environment is PATH, HOME, TMPDIR,
    LANG and OMP_NUM_THREADS alone.
    """
    path = f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin"
    os.environ.clear()
    os.environ.update({"PATH": path, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"})
    sys.stdin = sys.__stdin__ = text_stream(0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = text_stream(1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = text_stream(2, "w", errors="backslashreplace")  # type: ignore[misc]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__file__=FILE, __builtins__=builtins)
    sys.argv = [FILE]
    sys.path.insert(0, home)
    sys.dont_write_bytecode = True


def main_namespace(arguments: Sequence[str]) -> dict[str, Any]:
    """The names of `__main__`, with the arguments in sys.argv."""
    sys.argv += arguments
    return sys.modules["__main__"].__dict__


def compile_main(source: bytes, name: str = FILE) -> types.CodeType:
    """The code object of a program, its lines known to tracebacks. Raises SyntaxError or ValueError."""
    _remember_lines(source, name)
    return compile(source, name, "exec", dont_inherit=True)


def compile_cell(source: bytes, name: str) -> types.CodeType:
    """The same for a run of a session: a last expression is printed unless it is None."""
    _remember_lines(source, name)
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        show = ast.copy_location(ast.Name("__plaudit_show__", ast.Load()), last)
        last.value = ast.copy_location(ast.Call(show, [last.value], []), last)
        ast.fix_missing_locations(tree)
    return compile(tree, name, "exec", dont_inherit=True)


def show(value: Any) -> None:
    """Print a cell's last value as a notebook would."""
    if value is not None:
        print(repr(value))


def print_syntax_error(error: BaseException) -> None:
    """What CPython prints for a program that does not compile."""
    traceback.print_exception(type(error), error, None)
    sys.stderr.flush()


def execute(code: types.CodeType, namespace: dict[str, Any]) -> int:
    """Execute and return the exit code: an uncaught exception is printed and gives 1, sys.exit gives its own."""
    try:
        exec(code, namespace)
    except SystemExit as leaving:
        return _exit_code(leaving.code)
    except BaseException as error:
        # The first frame is this function's: not the program's business.
        rest = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, rest)
        return 1
    return 0


def finish(code: int) -> int:
    """What an interpreter does at its end: wait for threads, run exit handlers, flush. Returns the exit code."""
    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            code = code or 120
    return code


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _remember_lines(source: bytes, name: str) -> None:
    text = source.decode(errors="replace")
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)


def text_stream(descriptor: int, mode: str, errors: str = "strict") -> io.TextIOWrapper:
    """A text stream over a descriptor, "r" or "w", that leaves the descriptor open."""
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffered: Any = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, encoding="utf-8", errors=errors, write_through=descriptor == 2)
