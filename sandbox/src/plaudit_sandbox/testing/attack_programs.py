"""What the attacks run. `attempt(f)` says "reached" unless f raises OSError or ValueError, or returns less than 0."""

from __future__ import annotations

PRELUDE = """\
import ctypes, errno, os, platform, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == 'x86_64'
def call(x86, arm, *args):
    return libc.syscall(ctypes.c_long(x86 if X86 else arm), *args)
def attempt(f):
    try: result = f()
    except (OSError, ValueError): return
    if not (isinstance(result, int) and result < 0): print('reached', repr(result)[:200])
"""

ATTACKS: dict[str, str] = {
    "network_tcp": "attempt(lambda: socket.create_connection(('192.0.2.1', 80), timeout=0.5) or 0)",
    "network_tcp_v6": "attempt(lambda: socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80)) or 0)",
    "network_udp": (
        "def send():\n    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "    return s.sendto(b'x', ('192.0.2.1', 53))\nattempt(send)"
    ),
    "network_names": "attempt(lambda: socket.getaddrinfo('example.com', 80))",
    "network_raw": (
        "attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))\n"
        "attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))"
    ),
    "network_odd_families": (
        "for family in (16, 38, 40, 44, 15, 31):  # netlink, alg, vsock, xdp, key, bluetooth\n"
        "    attempt(lambda: socket.socket(family, socket.SOCK_RAW))"
    ),
    "proc_of_others": (
        "try: pids = list(filter(str.isdigit, os.listdir('/proc')))\n"
        "except OSError: pids = ['1', str(os.getppid())]\n"
        "for pid in pids:\n"
        "    if int(pid) == os.getpid(): continue\n"
        "    for name in ('environ', 'mem', 'maps', 'fd', 'cwd', 'root'):\n"
        "        path = f'/proc/{pid}/{name}'\n"
        "        attempt(lambda: os.listdir(path) if name == 'fd' else os.readlink(path) if name in ('cwd', 'root')\n"
        "                else open(path, 'rb').read(1))"
    ),
    "proc_settings": (
        "for path in ('/proc/sys/kernel/hostname', '/proc/sysrq-trigger', '/proc/sys/vm/drop_caches'):\n"
        "    attempt(lambda: open(path, 'w').write('x'))"
    ),
    "host_files": (
        "for path in ('/etc/shadow', '/root/.ssh', '/root/.bashrc', '/var/run/docker.sock', '/boot'):\n"
        "    attempt(lambda: os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(1) and path)"
    ),
    "write_outside": (
        "library = os.path.dirname(os.__file__)\n"
        "for place in ('/', '/etc', '/usr', '/bin', '/root', '/var', '/proc', '/sys', '/dev', library):\n"
        "    attempt(lambda: open(place + '/plaudit-probe', 'w'))"
    ),
    "devices": (
        "for name in ('mem', 'kmem', 'port', 'kvm', 'fuse', 'kmsg', 'sda', 'vda', 'net/tun', 'vhost-vsock'):\n"
        "    attempt(lambda: os.open('/dev/' + name, os.O_RDWR))\n"
        "attempt(lambda: os.mknod('node', 0o20666, os.makedev(1, 1)))"
    ),
    "signal_to_parent": (
        "import signal\n"
        "for pid in (1, os.getppid()):\n"
        "    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGKILL):\n"
        "        try: os.kill(pid, number)\n"
        "        except OSError: pass"
    ),
    "signal_to_everyone": "import signal\ntry: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass",
    "priority_of_parent": (
        "attempt(lambda: libc.setpriority(0, os.getppid(), 19))\n"
        "attempt(lambda: libc.setpriority(2, 0, 19))\n"
        "attempt(lambda: os.sched_setaffinity(os.getppid(), {0}) or 0)\n"
        "import resource\nattempt(lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0)))"
    ),
    "ptrace": (
        "libc.ptrace.restype = ctypes.c_long\n"
        "attempt(lambda: libc.ptrace(16, os.getppid(), 0, 0))\nattempt(lambda: libc.ptrace(0, 0, 0, 0))"
    ),
    "memory_of_parent": (
        "buffer = ctypes.create_string_buffer(8)\n"
        "class Vector(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]\n"
        "here = Vector(ctypes.addressof(buffer), 8)\n"
        "attempt(lambda: call(310, 270, os.getppid(), ctypes.byref(here), 1, ctypes.byref(here), 1, 0))\n"
        "attempt(lambda: call(438, 438, os.pidfd_open(os.getppid()), 0, 0))"
    ),
    "mount": (
        "attempt(lambda: libc.mount(b'none', os.getcwd().encode(), b'tmpfs', 0, None))\n"
        "attempt(lambda: libc.umount2(b'/proc', 2))\nattempt(lambda: call(430, 430, b'tmpfs', 0))\n"
        "attempt(lambda: call(428, 428, -100, b'/', 1))\nattempt(lambda: os.chroot('.') or 0)"
    ),
    "namespaces": (
        "for flag in (0x10000000, 0x20000000, 0x40000000, 0x20000, 0x02000000):\n"
        "    attempt(lambda: libc.unshare(flag))\n"
        "    attempt(lambda: call(56, 220, ctypes.c_ulong(flag | 17), 0, 0, 0, 0) or os._exit(print('reached')))\n"
        "attempt(lambda: libc.setns(os.open('/proc/1/ns/mnt', 0), 0))"
    ),
    "setuid": (
        "attempt(lambda: os.setuid(0) or 0)\nattempt(lambda: os.setgroups([0]) or 0)\n"
        "attempt(lambda: os.setresuid(0, 0, 0) or 0)\nif 0 in os.getresuid(): print('reached: root')"
    ),
    "setuid_programs": (
        "import subprocess\n"
        "for program in ('su', 'sudo', 'mount', 'passwd'):\n"
        "    try: out = subprocess.run([program, '--version'], capture_output=True, timeout=3)\n"
        "    except (OSError, subprocess.SubprocessError): continue\n"
        "if libc.prctl(39, 0, 0, 0, 0) != 1: print('reached: privileges may be gained')"
    ),
    "capabilities": (
        "class Data(ctypes.Structure): _fields_ = [('bits', ctypes.c_uint32 * 6)]\n"
        "data = Data()\nlibc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), ctypes.byref(data))\n"
        "ours = data.bits[0] & ~0b110  # reading others' files is bounded by Landlock where it is left\n"
        "if ours or data.bits[3]: print('reached', list(data.bits))"
    ),
    "io_uring": "attempt(lambda: call(425, 425, 4, ctypes.create_string_buffer(120)))",
    "bpf": "attempt(lambda: call(321, 280, 0, ctypes.create_string_buffer(128), 128))",
    "userfaultfd": "attempt(lambda: call(323, 282, 1))",
    "perf_events": "attempt(lambda: call(298, 241, ctypes.create_string_buffer(128), 0, -1, -1, 0))",
    "keyring": "attempt(lambda: call(250, 219, 0, -3, 1))\nattempt(lambda: call(248, 217, b'user', b'x', b'y', 1, -3))",
    "kernel_log": "attempt(lambda: call(103, 116, 3, ctypes.create_string_buffer(64), 64))",
    "kernel_modules": "attempt(lambda: call(175, 105, b'', 0, b''))\nattempt(lambda: call(246, 104, 0, 0, None, 0))",
    "clock": (
        "import time\nattempt(lambda: time.clock_settime(time.CLOCK_REALTIME, 0) or 0)\n"
        "attempt(lambda: libc.settimeofday(ctypes.create_string_buffer(16), None))\n"
        "attempt(lambda: call(159, 171, (ctypes.c_uint32 * 64)(1)))"
    ),
    "host_name": "attempt(lambda: libc.sethostname(b'x', 1))",
    "file_handles": "attempt(lambda: call(304, 265, -100, ctypes.create_string_buffer(64), 0))",
    "shared_memory": "attempt(lambda: call(29, 194, 77, 4096, 0o1666))\nattempt(lambda: call(68, 186, 77, 0o1666))",
    "terminal_input": "import fcntl\nattempt(lambda: fcntl.ioctl(0, 0x5412, b'x') or 0)",
    "descriptors": (
        "for fd in range(3, 1024):\n"
        "    try: os.fstat(fd)\n"
        "    except OSError: continue\n"
        "    print('reached: descriptor', fd)"
    ),
    "cgroups": (
        "attempt(lambda: open('/sys/fs/cgroup/cgroup.procs', 'w').write('0'))\n"
        "attempt(lambda: open('/sys/fs/cgroup/memory/cgroup.procs', 'w').write('0'))"
    ),
    "agent_modules": "for name in sys.modules:\n    if 'plaudit' in name: print('reached', name)",
}
