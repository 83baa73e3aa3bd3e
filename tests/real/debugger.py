"""A second opinion on a glibc heap, by functions of that glibc itself.

gdb calls malloc_info() and malloc_trim() inside the target. Both are dynamic
symbols, so no debug information is needed. Each call stops the target for
the time that gdb needs to load its symbols.
"""

import os
import re
import shutil
import subprocess


def available():
    return shutil.which("gdb") is not None


def _call(pid, *expressions):
    words = ["gdb", "-q", "-nx", "-batch", "-p", str(pid)]
    for expression in expressions:
        words += ["-ex", expression]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=90, check=False)
    values = re.findall(r"^\$\d+ = (?:\(.*\) )?(\S+)$", done.stdout, re.M)
    if len(values) != len([e for e in expressions if e.startswith("print")]):
        raise AssertionError(f"gdb: {done.stdout[-500:]} {done.stderr[-500:]}")
    return values


def malloc_trim(pid):
    """malloc_trim(0) in the target; 1 when memory was given back."""
    return int(_call(pid, "print ((int (*)(unsigned long)) malloc_trim)(0)")[0])


class MallocInfo:
    """What malloc_info(0, …) says: arenas, system, mmapped and free bytes.

    "Free" is glibc's: bins and fastbins, with what is at the tops; chunks in
    a tcache count as used there.
    """

    def __init__(self, pid, path):
        _call(pid,
              f'print ((void *(*)(char *, char *)) fopen)("{path}", "w")',
              "print ((int (*)(int, void *)) malloc_info)(0, (void *) $1)",
              "print ((int (*)(void *)) fclose)((void *) $1)")
        with open(path, encoding="ascii") as f:
            text = f.read()
        os.unlink(path)
        self.arenas = len(re.findall(r"<heap nr=", text))
        totals = text.rpartition("</heap>")[2]
        self.free = self._number(totals, r'<total type="fast" count="\d+" size="(\d+)"')
        self.free += self._number(totals, r'<total type="rest" count="\d+" size="(\d+)"')
        self.mmapped = self._number(totals, r'<total type="mmap" count="\d+" size="(\d+)"')
        self.system = self._number(totals, r'<system type="current" size="(\d+)"')

    @staticmethod
    def _number(text, pattern):
        found = re.search(pattern, text)
        if not found:
            raise AssertionError(f"malloc_info wrote no {pattern}")
        return int(found.group(1))
