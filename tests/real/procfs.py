"""What /proc says about a process, read independently of memwhy.

Trusts the kernel only. These readers are the tests' own truth: they must
share no code with memwhy. Sizes are bytes.
"""

import os
import re

KIB = 1024
MIB = 1024 * 1024
HEAP_ALIGN = 64 * MIB          # HEAP_MAX_SIZE of glibc's thread arenas, 64 bit


def _read(pid, name):
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as f:
        return f.read()


def status(pid):
    """The fields of /proc/PID/status as strings; sizes still in "N kB"."""
    fields = {}
    for line in _read(pid, "status").splitlines():
        key, _, value = line.partition(":")
        fields[key] = value.strip()
    return fields


def status_bytes(pid, key):
    """One size of /proc/PID/status (VmRSS, VmHWM, …) in bytes."""
    return int(status(pid)[key].split()[0]) * KIB


def smaps_sum(pid, key):
    """Sum of one field over every mapping of /proc/PID/smaps, in bytes."""
    total = 0
    prefix = key + ":"
    for line in _read(pid, "smaps").splitlines():
        if line.startswith(prefix):
            total += int(line.split()[1]) * KIB
    return total


def start_time(pid):
    """Start in clock ticks since boot, or None when PID is gone."""
    try:
        return int(_read(pid, "stat").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def is_running(pid):
    """True while PID exists and is no zombie."""
    try:
        return status(pid)["State"][0] not in "ZX"
    except (OSError, KeyError):
        return False


def children(pid):
    """Direct children of PID, of all its threads."""
    found = []
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            text = _read(pid, f"task/{tid}/children")
            found += [int(word) for word in text.split()]
    except OSError:
        pass                    # PID or one of its threads ended meanwhile
    return found


def descendants(pid):
    """Every (pid, start time) below PID. Bounded by what exists."""
    found, queue = [], [pid]
    while queue:
        for child in children(queue.pop()):
            began = start_time(child)
            if began is not None and (child, began) not in found:
                found.append((child, began))
                queue.append(child)
    return found


def thread_count(pid):
    return int(status(pid)["Threads"])


def arena_heaps_guess(pid):
    """Readable and writable anonymous mappings that start 64 MiB-aligned.

    An upper guess of the thread-arena heaps of a glibc process: mappings of
    another origin can be aligned by chance, and heaps that touch merge.
    """
    count = 0
    for line in _read(pid, "maps").splitlines():
        match = re.match(r"([0-9a-f]+)-[0-9a-f]+ rw-p \S+ 00:00 0 *$", line)
        if match and int(match.group(1), 16) % HEAP_ALIGN == 0:
            count += 1
    return count


def thread_states(pid):
    """The state letter of every thread (R, S, D; T and t are stopped)."""
    states = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            states.append(_read(pid, f"task/{tid}/stat").rpartition(")")[2].split()[0])
        except OSError:
            pass                # the thread ended meanwhile
    return states


def huge_pages_always():
    """Does the kernel back all memory with huge pages where it can?"""
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
            return "[always]" in file.read()
    except OSError:
        return False
