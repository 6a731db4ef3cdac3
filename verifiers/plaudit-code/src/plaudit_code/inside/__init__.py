"""Source texts that run inside the sandbox. They import the standard library and `plaudit_host` alone."""

from functools import cache
from importlib.resources import files


@cache
def source_of(name: str) -> str:
    """The text of a module of this folder."""
    return files(__package__).joinpath(f"{name}.py").read_text(encoding="utf-8")
