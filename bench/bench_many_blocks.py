"""`heap` on 10 million blocks in 48 heaps of 8 threads, half of them freed: a core and the process.

The core, written by the kernel, is read beside `cat` of the same warm file; the process beside one
thread that only reads the same memory (bench/bareread.c). Counts and bytes must be the program's
own in every run. A peer's command for the core can be given as MEMWHY_CHAP (its path).

BENCH_BLOCKS: blocks for each thread, 1,250,000 unless set.
"""
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import benchlib

THREADS = 8
BLOCKS = int(os.environ.get("BENCH_BLOCKS", "1250000"))
RUNS = 7
PEAK_MIB = 100
# `heap` on a core, in runs of cat. Lists that lead anywhere cost a cache miss a block.
CAT_RATIO = {"ascending": 1.0, "shuffled": 1.15}
PAUSE_SECONDS = 0.1
# All pauses together, in reads of the same bytes by one thread; and the longest, in --max-pause.
PAUSES_RATIO, LONGEST_RATIO = 1.0, 1.2


class Target:
    """The process; what it says of itself."""

    def __init__(self, order, folder):
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
        self.folder = folder
        self.child = subprocess.Popen(
            [benchlib.BUILD / "bench/manyblocks", str(THREADS), str(BLOCKS), order, "abort"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
        words = [int(word) for word in self.child.stdout.readline().split()]
        self.pid, self.held_count, self.held_bytes, self.used, self.free, self.mmapped = words[:6]

    def core(self):
        """Its end, as a core file; None when the kernel does not write one here."""
        self.child.communicate("\n")
        found = [path for path in Path(self.folder).iterdir() if path.name.startswith("core")]
        return found[0] if found else None


def check_answer(what, heap, target):
    """mallinfo2's sums are malloc's own; the program's blocks are in it, and a few of libc's."""
    one = heap["allocators"][0]
    used = one["in_use_bytes"] - one["mmapped_bytes"] + one["tcache_bytes"] + one["metadata_bytes"]
    benchlib.check(f"{what}: uordblks", used == target.used, (used, target.used))
    free = one["free_bytes"] - one["tcache_bytes"]
    benchlib.check(f"{what}: fordblks", free == target.free, (free, target.free))
    more = one["in_use_count"] - target.held_count
    benchlib.check(f"{what}: blocks in use", 0 <= more <= 4 * THREADS, more)
    benchlib.check(f"{what}: reconciled", one["reconciled"] is not False, one["reconciled"])


def seconds(command):
    """Wall time and answer of one run."""
    started = time.monotonic()
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return time.monotonic() - started, out


def cat_seconds(path):
    started = time.monotonic()
    with open("/dev/null", "wb") as null:
        subprocess.run(["cat", path], stdout=null, check=True)
    return time.monotonic() - started


def bench_core(order, core, target):
    cats, ours = [], []
    for _ in range(RUNS):
        cats.append(cat_seconds(core))
        took, out = seconds([benchlib.MEMWHY, "heap", core, "--json"])
        ours.append(took)
        check_answer(f"{order}, core", json.loads(out), target)
    cat = statistics.median(cats[1:])
    benchlib.row(f"{order}, core: heap", "ms", 1e3 * statistics.median(ours[1:]),
                 {"cat": 1e3 * cat}, 1e3 * CAT_RATIO[order] * cat)
    cost = benchlib.measure([benchlib.MEMWHY, "heap", core, "--json"], 3)
    benchlib.row(f"{order}, core: peak resident", "MiB", cost.peak_mib, {}, PEAK_MIB)
    if "MEMWHY_CHAP" in os.environ:
        took = time.monotonic()
        subprocess.run([os.environ["MEMWHY_CHAP"], core], input=b"count used\n", check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        benchlib.row(f"{order}, core: beside chap", "ms", 1e3 * statistics.median(ours),
                     {"chap": 1e3 * (time.monotonic() - took)})


def bench_live(order, target):
    bares, totals, longest, stops = [], [], [], []
    for _ in range(RUNS):
        words = seconds([benchlib.BUILD / "bench/bareread", str(target.pid)])[1].split()
        bares.append(int(words[0]) / 1e9)
        report = json.loads(seconds([benchlib.MEMWHY, "report", str(target.pid), "--json"])[1])
        check_answer(f"{order}, live", report, target)
        totals.append(report["paused_seconds"])
        longest.append(report["longest_pause_seconds"])
        stops.append(report["pauses"])
    bare = statistics.median(bares)
    benchlib.row(f"{order}, live: all pauses", "ms", 1e3 * statistics.median(totals),
                 {"bare read": 1e3 * bare}, 1e3 * PAUSES_RATIO * bare)
    benchlib.row(f"{order}, live: longest pause of all runs", "ms", 1e3 * max(longest), {},
                 1e3 * LONGEST_RATIO * PAUSE_SECONDS)
    benchlib.row(f"{order}, live: stops", "", statistics.median(stops))


def main():
    subprocess.run(["ninja", "-C", benchlib.BUILD, "bench/manyblocks", "bench/bareread",
                    "bench/measure", "memwhy"], check=True, stdout=subprocess.DEVNULL)
    pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="ascii").strip()
    for order in ("ascending", "shuffled"):
        folder = tempfile.mkdtemp(prefix="memwhy-bench-", dir=os.environ.get("BENCH_DIR"))
        try:
            target = Target(order, folder)
            bench_live(order, target)
            core = None if "/" in pattern or "|" in pattern else target.core()
            if core:
                bench_core(order, core, target)
            target.child.kill()
            if not core:
                benchlib.skip("the kernel writes no core into the working directory here")
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
