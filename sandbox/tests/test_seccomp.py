"""The filter's program, run by a second implementation of classic BPF."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from plaudit_sandbox.agent import seccomp

ALLOW, KILL, EPERM, EACCES, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x0005000D, 0x00050026
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
HEADERS = {
    "x86_64": ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"],
    "aarch64": ["/usr/include/asm-generic/unistd.h"],
}


def run(program: seccomp.Program, machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """The filter's verdict on one system call."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", number, ARCH[machine] if arch is None else arch, 0, *padded)
    accumulator, position = 0, 0
    while True:
        code, true, false, constant = program[position]
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, constant)
        elif code == 0x06:
            return constant
        elif code == 0x05:
            position += constant
        else:
            holds = {0x15: accumulator == constant, 0x35: accumulator >= constant, 0x45: bool(accumulator & constant)}
            position += true if holds[code] else false


def program(machine: str, *, unix_sockets: bool = True) -> seccomp.Program:
    column = {"x86_64": 0, "aarch64": 1}[machine]
    return seccomp.assemble(machine, seccomp._rules(column, unix_sockets))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_number_gets_its_verdict(machine: str) -> None:
    column = {"x86_64": 0, "aarch64": 1}[machine]
    denied = {numbers[column] for numbers in seccomp._DENIED.values()} - {None}
    special = {numbers[column] for numbers, _ in seccomp._SELF_ONLY.values()}
    special |= {pair[column] for pair in (seccomp._CLONE, seccomp._CLONE3, seccomp._SOCKET, seccomp._IOCTL)}
    special.add(seccomp._SETPRIORITY[column])
    filter_ = program(machine)
    for number in range(463):
        if number not in special:
            assert run(filter_, machine, number) == (EPERM if number in denied else ALLOW), number
    for number in (463, 500, 100000):
        assert run(filter_, machine, number) == ENOSYS


@pytest.mark.parametrize(
    ("number", "arguments", "verdict"),
    [
        (56, (17,), ALLOW),
        (56, (0x10000000 | 17,), EPERM),
        (56, (0x00020000,), EPERM),
        (435, (0,), ENOSYS),
        (41, (1, 1), ALLOW),
        (41, (2, 1), EACCES),
        (41, (40, 1), EACCES),
        (302, (0, 7), ALLOW),
        (302, (1, 7), EPERM),
        (141, (0, 0), ALLOW),
        (141, (0, 1), EPERM),
        (141, (2, 0), EPERM),
        (203, (0,), ALLOW),
        (203, (5,), EPERM),
        (16, (0, 0x5401), ALLOW),
        (16, (0, 0x5412), EPERM),
        (16, (0, 0x541C), EPERM),
        (0x40000000 | 1, (), KILL),
    ],
)
def test_arguments_decide(number: int, arguments: tuple[int, ...], verdict: int) -> None:
    assert run(program("x86_64"), "x86_64", number, *arguments) == verdict


def test_another_architecture_is_killed() -> None:
    assert run(program("x86_64"), "x86_64", 1, arch=0x40000003) == KILL


def test_without_unix_sockets_there_are_none() -> None:
    assert run(program("x86_64", unix_sockets=False), "x86_64", 41, 1, 1) == EACCES


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    header = next((path for path in map(Path, HEADERS[machine]) if path.exists()), None)
    if header is None:
        pytest.skip(f"no kernel headers for {machine} here")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", header.read_text()))
    column = {"x86_64": 0, "aarch64": 1}[machine]
    tables = {**seccomp._DENIED, **{name: numbers for name, (numbers, _) in seccomp._SELF_ONLY.items()}}
    checked = 0
    for name, numbers in tables.items():
        if name in found and numbers[column] is not None:
            assert int(found[name]) == numbers[column], name
            checked += 1
    assert checked > 60
