"""The seccomp filter: which system calls a program may not make.

Everything is allowed but what is named here, and numbers newer than this table. The filter is a binary search over the
numbers, because the kernel tries each number against it once whenever it is loaded.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence

from . import syscalls

_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EPERM, _EACCES, _ENOSYS = 0x00050001, 0x0005000D, 0x00050026
_X32_BIT = 0x40000000
_NAMESPACE_FLAGS = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_UNIX = 1
_PRIO_PROCESS = 0

Instruction = tuple[int, int, int, int]
Rule = int | list[Instruction]
Program = list[Instruction]

# name: (x86_64, aarch64); None where the architecture has no such call.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    "statmount": (457, 457), "listmount": (458, 458), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "memfd_secret": (447, 447),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "syslog": (103, 116), "acct": (163, 89),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None),
    "_sysctl": (156, None), "sysfs": (139, None), "nfsservctl": (180, 42), "lookup_dcookie": (212, 18),
    "vhangup": (153, 58), "personality": (135, 92), "sethostname": (170, 161), "setdomainname": (171, 162),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setresuid": (117, 147), "setresgid": (119, 149), "setfsuid": (122, 151), "setfsgid": (123, 152),
    "setgroups": (116, 159), "capset": (126, 91),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "ioprio_set": (251, 30), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "mbind": (237, 235), "set_mempolicy": (238, 237),
}  # fmt: skip
# Calls that act on another process when this argument is not 0.
_SELF_ONLY = {
    "prlimit64": ((302, 261), 0), "sched_setaffinity": ((203, 122), 0), "sched_setscheduler": ((144, 119), 0),
    "sched_setparam": ((142, 118), 0), "sched_setattr": ((314, 274), 0), }  # fmt: skip
_CLONE, _CLONE3, _SOCKET, _IOCTL, _SETPRIORITY = (56, 220), (435, 435), (41, 198), (16, 29), (141, 140)
_NEWEST = 462
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def supported() -> bool:
    """Whether this table knows the machine's architecture."""
    return syscalls.MACHINE in _ARCHITECTURES


def install(*, unix_sockets: bool, allow: Sequence[str] = ()) -> None:
    """Load the filter into this process and its children, for good. Sets no_new_privs. Raises OSError where it cannot.

    allow: names of denied calls that this process itself still needs.
    """
    rules = _rules(_ARCHITECTURES[syscalls.MACHINE][0], unix_sockets)
    for name in allow:
        rules.pop(number_of(name), None)
    filter_ = _Filter(assemble(syscalls.MACHINE, rules))
    syscalls.no_new_privileges()
    syscalls.check(syscalls.prctl(syscalls.PR_SET_SECCOMP, syscalls.SECCOMP_MODE_FILTER, filter_.pointer), "seccomp")


def number_of(name: str) -> int:
    """A denied call's number on this machine; -1 where the architecture has no such call."""
    number = _DENIED[name][_ARCHITECTURES[syscalls.MACHINE][0]]
    return -1 if number is None else number


def assemble(machine: str, rules: Mapping[int, Rule]) -> Program:
    """The filter's instructions (code, jump if true, jump if false, constant)."""
    audit_arch = _ARCHITECTURES[machine][1]
    return [
        *(_load(4), (_JEQ, 1, 0, audit_arch), _ret(_KILL)),
        *(_load(0), (_JGE, 0, 1, _X32_BIT), _ret(_KILL)),
        *((_JGE, 0, 1, _NEWEST + 1), _ret(_ENOSYS)),
        *_search(sorted(rules.items())),
    ]


def _rules(column: int, unix_sockets: bool) -> dict[int, Rule]:
    rules: dict[int, Rule] = {}
    for numbers in _DENIED.values():
        number = numbers[column]
        if number is not None:
            rules[number] = _EPERM
    for self_numbers, argument in _SELF_ONLY.values():
        rules[self_numbers[column]] = [_argument(argument), (_JEQ, 1, 0, 0), _ret(_EPERM), _ret(_ALLOW)]
    # glibc falls back from clone3, whose flags a filter cannot read, to clone.
    rules[_CLONE3[column]] = _ENOSYS
    rules[_CLONE[column]] = [_argument(0), (_JSET, 0, 1, _NAMESPACE_FLAGS), _ret(_EPERM), _ret(_ALLOW)]
    rules[_SETPRIORITY[column]] = [
        *(_argument(0), (_JEQ, 0, 2, _PRIO_PROCESS), _argument(1), (_JEQ, 1, 0, 0), _ret(_EPERM), _ret(_ALLOW)),
    ]
    rules[_IOCTL[column]] = [
        *(_argument(1), (_JEQ, 1, 0, _TIOCSTI), (_JEQ, 0, 1, _TIOCLINUX), _ret(_EPERM), _ret(_ALLOW)),
    ]
    unix_only: Rule = [_argument(0), (_JEQ, 0, 1, _AF_UNIX), _ret(_ALLOW), _ret(_EACCES)]
    rules[_SOCKET[column]] = unix_only if unix_sockets else _EACCES
    return rules


def _search(rules: list[tuple[int, Rule]]) -> Program:
    if len(rules) == 1:
        number, rule = rules[0]
        body = [_ret(rule)] if isinstance(rule, int) else rule
        return [(_JEQ, 0, len(body), number), *body, _ret(_ALLOW)]
    middle = len(rules) // 2
    low, high = _search(rules[:middle]), _search(rules[middle:])
    # A conditional jump reaches 255 instructions; an unconditional one (code 5) any distance.
    return [(_JGE, 0, 1, rules[middle][0]), (0x05, 0, 0, len(low)), *low, *high]


def _load(offset: int) -> Instruction:
    return (_LD, 0, 0, offset)


def _argument(index: int) -> Instruction:
    return _load(16 + 8 * index)


def _ret(action: int) -> Instruction:
    return (_RET, 0, 0, action)


class _Filter:
    """A sock_fprog in memory that stays where it is."""

    def __init__(self, program: Program) -> None:
        packed = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
        self._code = ctypes.create_string_buffer(packed, len(packed))
        header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(self._code))
        self._header = ctypes.create_string_buffer(header, len(header))
        self.pointer = ctypes.c_void_p(ctypes.addressof(self._header))
