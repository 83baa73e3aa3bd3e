"""Running memwhy on a target, with the kernel's figures around each run.

The program is $MEMWHY, else build/memwhy of this source tree.
"""

import functools
import json
import os
import subprocess
import sys
import time

import procfs

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.environ.get("MEMWHY") or os.path.join(ROOT, "build", "memwhy")

CLASSES = ("leaked", "growing", "kept", "outside", "needed")
CATEGORIES = frozenset((
    "managed.heap", "managed.code", "managed.metadata", "malloc.in_use",
    "malloc.free", "malloc.metadata", "malloc.unsplit", "stack.main",
    "stack.threads", "file.text", "file.data", "file.mapped", "shared.memory",
    "device", "alias", "anon.other"))


def require():
    """End the test file at once when there is no program to test."""
    if not os.access(PROGRAM, os.X_OK):
        print(f"Bail out! no program at {PROGRAM}; build it or set MEMWHY", flush=True)
        sys.exit(1)


class Run:
    """One finished run of memwhy."""

    def __init__(self, *words, timeout=60):
        self.words = [str(word) for word in words]
        began = time.monotonic()
        done = subprocess.run([PROGRAM, *self.words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout,
                              check=False)
        self.seconds = time.monotonic() - began
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def json(self):
        """The parsed output; AssertionError with the reason when it is none."""
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise AssertionError(f"{self}: no JSON: {error}") from error

    def __str__(self):
        return (f"memwhy {' '.join(self.words)}: exit {self.code}, "
                f"{len(self.out)} bytes; {self.err.strip()[-600:]}")


class Moment:
    """What the kernel says of a process at one moment."""

    def __init__(self, pid):
        self.rss = procfs.smaps_sum(pid, "Rss")
        self.anonymous = procfs.smaps_sum(pid, "Anonymous")
        status = procfs.status(pid)
        self.vm_rss = procfs.status_bytes(pid, "VmRSS")
        self.peak = procfs.status_bytes(pid, "VmHWM")
        self.tracer = int(status["TracerPid"])
        self.state = status["State"][0]
        self.threads = int(status["Threads"])
        self.children = sorted(procfs.children(pid))
        self.thread_states = procfs.thread_states(pid)


class Observation:
    """`memwhy report PID --json` between two moments."""

    def __init__(self, pid):
        self.pid = pid
        self.before = Moment(pid)
        self.run = Run("report", pid, "--json")
        self.after = Moment(pid)

    @functools.cached_property
    def report(self):
        return self.run.json()
