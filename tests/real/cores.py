"""Two cores of one process at one moment: by gdb's gcore, then by the kernel.

The process is stopped by SIGSTOP, so gcore sees what the kernel sees afterwards. The kernel dumps
it for a signal that it does not catch, which is sent to each of its threads before it goes on: none
of them runs again, unless it blocks the signal.
"""

import ctypes
import glob
import os
import re
import resource
import shutil
import signal
import struct
import subprocess

import process
import procfs
from process import Unavailable

_libc = ctypes.CDLL(None, use_errno=True)
PAGE = 4096
CORE_FILTER = "0x7f"   # all kinds of mappings
FATAL = (signal.SIGSYS, signal.SIGTRAP, signal.SIGXCPU, signal.SIGABRT, signal.SIGILL,
         signal.SIGSEGV)


def allow():
    """Programs started from now on may dump core, as far as our own limit goes."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def stop(pid):
    """Stop PID and wait until it is."""
    os.kill(pid, signal.SIGSTOP)
    process.wait_until(lambda: set(procfs.thread_states(pid)) <= {"T"}, "a stop", 10)


def gcore(pid, directory):
    """Path of the core that gdb writes; the process goes on as it was."""
    if not shutil.which("gcore"):
        raise Unavailable("gcore is not installed (package gdb)")
    with open(f"/proc/{pid}/coredump_filter", "w", encoding="ascii") as file:
        file.write(CORE_FILTER)
    prefix = os.path.join(directory, "gcore")
    done = subprocess.run(["gcore", "-o", prefix, str(pid)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=180, check=False)
    path = f"{prefix}.{pid}"
    if not os.path.exists(path):
        raise Unavailable(f"gdb may not trace here: {done.stderr[-200:]}")
    return path


def _segments(core):
    """{address: (file offset, file bytes)} of an ELF core."""
    head = core.read(64)
    at, = struct.unpack_from("<Q", head, 32)
    count, = struct.unpack_from("<H", head, 56)
    core.seek(at)
    table = core.read(56 * count)
    found = {}
    for i in range(count):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", table, 56 * i)
        if kind == 1:
            found[address] = offset, size
    return found


def is_of_now(pid, path):
    """Does the core at PATH hold what the stopped process has in its writable memory? gdb lets a
    stopped process run for a moment when it attaches, and may do so when it goes."""
    with open(path, "rb") as core, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory, \
            open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap, \
            open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        segments = _segments(core)
        for line in maps:
            where, perms = line.split()[:2]
            start, end = (int(number, 16) for number in where.split("-"))
            offset, size = segments.get(start, (0, 0))
            if not perms.startswith("rw") or size < end - start:
                continue
            pagemap.seek(start // PAGE * 8)
            pages = pagemap.read((end - start) // PAGE * 8)
            for i, (entry,) in enumerate(struct.iter_unpack("<Q", pages)):
                if not entry >> 63:
                    continue
                memory.seek(start + i * PAGE)
                core.seek(offset + i * PAGE)
                if memory.read(PAGE) != core.read(PAGE):
                    return False
    return True


def gcore_of_now(pid, directory, tries=5):
    """gcore(), of the moment at which the process stands stopped when this returns."""
    for _ in range(tries):
        path = gcore(pid, directory)
        if is_of_now(pid, path):
            return path
        os.unlink(path)
    raise Unavailable(f"gdb let the stopped process run on, {tries} times")


def _fatal_signal(pid):
    """A signal that dumps core, and that the process neither catches nor ignores, and no thread of it
    blocks: one that does would run on until the others are dumped."""
    taken = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        status = procfs.status(f"{pid}/task/{thread}")
        for name in ("SigCgt", "SigIgn", "SigBlk"):
            taken |= int(status[name], 16)
    for number in FATAL:
        if not taken >> (number - 1) & 1:
            return number
    raise Unavailable("the process catches or blocks all signals that dump core")


def kernel_core(pid, directory):
    """Path of the core that the kernel writes of the stopped process; ends the process."""
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        pattern = file.read().strip()
    if pattern.startswith("|") or "/" in pattern:
        raise Unavailable(f"kernel.core_pattern is {pattern!r}, not a name in the own directory")
    where = os.path.join(os.readlink(f"/proc/{pid}/cwd"), re.sub(r"%.", "*", pattern) + "*")
    before = set(glob.glob(where))
    number = _fatal_signal(pid)
    for thread in os.listdir(f"/proc/{pid}/task"):
        _libc.tgkill(pid, int(thread), number)
    os.kill(pid, signal.SIGCONT)
    process.wait_until(lambda: not procfs.is_running(pid), "the kernel's core", 120)
    new = sorted(set(glob.glob(where)) - before)
    if len(new) != 1:
        raise Unavailable(f"the kernel wrote no core: {new}")
    path = os.path.join(directory, f"kernel.{pid}")
    shutil.move(new[0], path)
    return path
