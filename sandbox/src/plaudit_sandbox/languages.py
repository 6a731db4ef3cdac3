"""How a program of each language becomes a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plaudit_sandbox.errors import SandboxError
from plaudit_sandbox.protocol import Data, Program


@dataclass(frozen=True, slots=True)
class Language:
    """file: where the source goes. command: what runs it. compile: what must come first."""

    file: str
    command: Sequence[str]
    compile: Sequence[str] = ()


LANGUAGES: Mapping[str, Language] = {
    "bash": Language("main.sh", ("bash", "main.sh")),
    "sh": Language("main.sh", ("sh", "main.sh")),
    "node": Language("main.js", ("node", "main.js")),
    "c": Language("main.c", ("./program",), ("gcc", "-O2", "-std=gnu17", "-o", "program", "main.c", "-lm")),
    "cpp": Language("main.cpp", ("./program",), ("g++", "-O2", "-std=gnu++20", "-o", "program", "main.cpp")),
    "rust": Language("main.rs", ("./program",), ("rustc", "-O", "-o", "program", "main.rs")),
    "go": Language("main.go", ("./program",), ("go", "build", "-o", "program", "main.go")),
    "java": Language("Main.java", ("java", "-cp", ".", "Main"), ("javac", "Main.java")),
    "ruby": Language("main.rb", ("ruby", "main.rb")),
    "perl": Language("main.pl", ("perl", "main.pl")),
    "lua": Language("main.lua", ("lua", "main.lua")),
}
ALIASES = {
    "py": "python", "python3": "python", "shell": "bash", "javascript": "node", "js": "node", "c++": "cpp",
    "cc": "cpp", "rs": "rust", "golang": "go", "rb": "ruby",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Invocation:
    """What an agent is told to run. kind "python" runs `source` in its own interpreter, "command" the command."""

    kind: str
    source: Data
    command: Sequence[str]
    compile: Sequence[str]
    files: Mapping[str, Data]


def invocation(program: str | Program) -> Invocation:
    """Raises SandboxError for a language that is not known."""
    if not isinstance(program, Program):
        program = Program(program)
    if program.command is not None:
        if not program.command or program.source:
            raise SandboxError("Program(command=…): expected a command that is not empty, and no source beside it")
        return Invocation("command", "", (*program.command, *program.arguments), (), {})
    name = program.language.lower()
    name = ALIASES.get(name, name)
    if name == "python":
        return Invocation("python", program.source, (), (), {})
    language = LANGUAGES.get(name)
    if language is None:
        known = ", ".join(["python", *LANGUAGES])
        raise SandboxError(f"Program(language={program.language!r}): expected one of {known}, or command=[…]")
    command = (*language.command, *program.arguments)
    return Invocation("command", "", command, language.compile, {language.file: program.source})
