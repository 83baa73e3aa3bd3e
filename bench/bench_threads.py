"""`report --no-heap` on 1,000 threads and a few hundred other mappings: at most 1.5 times the bare
reads of the files of /proc that it reads.

Which files these are is asked of the kernel (strace) in the run itself; the bare reader opens and
reads the same ones, as often, and nothing else: not those of the cgroup. Both are measured in turn,
start of the program included. Cost is CPU time, which other load does not change; wall time is
shown with it.
"""
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import benchlib

THREADS, OTHERS, ROUNDS = 1000, 400, 15
RATIO_MAX = 1.5
READER = benchlib.BUILD / "bench/bench_threads"


def files_read(pid):
    """The files of /proc that a report reads, as arguments of the bare reader, in order."""
    done = subprocess.run(["strace", "-y", "-e", "trace=openat,read,pread64", benchlib.MEMWHY,
                           "report", str(pid), "--no-heap"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=True)
    opened = re.findall(r"^openat\(.* = \d+<(/proc/[^>]*)>$", done.stderr, re.M)
    was_read = set(re.findall(r"^p?read(?:64)?\(\d+<(/proc/[^>]*)>", done.stderr, re.M))
    of_target = [re.sub(rf"^/proc/{pid}/", "", path) for path in opened if path in was_read]
    return [re.sub(r"^/proc/\d+/", "/proc/self/", path) for path in of_target]


def check_report(pid):
    done = subprocess.run([benchlib.MEMWHY, "report", str(pid), "--no-heap", "--json"],
                          check=True, stdout=subprocess.PIPE)
    report = json.loads(done.stdout)
    smaps = Path(f"/proc/{pid}/smaps").read_text()
    rss = sum(int(kib) for kib in re.findall(r"^Rss:\s+(\d+) kB", smaps, re.M)) << 10
    benchlib.check("rss_bytes is the kernel's", report["rss_bytes"] == rss,
                   f"{report['rss_bytes']}, kernel {rss}")
    total = sum(one["rss_bytes"] for one in report["categories"]) + report["unknown_bytes"]
    benchlib.check("categories and unknown are rss_bytes", total == report["rss_bytes"], total)
    stacks = [one["count"] for one in report["categories"] if one["id"] == "stack.threads"]
    benchlib.check("every thread's stack is one", stacks == [THREADS - 1], stacks)


def compare(pid):
    names = files_read(pid)
    benchlib.check("smaps is read once, nothing of single threads",
                   names.count("smaps") == 1 and not [name for name in names if "task/" in name],
                   names)
    check_report(pid)
    commands = {"ours": [benchlib.MEMWHY, "report", str(pid), "--no-heap"],
                "bare": [READER, "read", str(pid), *names]}
    costs = {"ours": [], "bare": []}
    for _ in range(ROUNDS):
        for who, command in commands.items():
            costs[who].append(benchlib.measure(command, runs=1))
    codes = {code for some in costs.values() for one in some for code in one.codes}
    benchlib.check("every run ended well", codes == {0}, codes)

    def median(who, what):
        return statistics.median(getattr(one, what) for one in costs[who])

    bare = median("bare", "cpu_ms")
    benchlib.row(f"CPU, {THREADS} threads, median of {ROUNDS}", "ms", median("ours", "cpu_ms"),
                 {"bare reads": bare}, RATIO_MAX * bare)
    benchlib.row("wall", "ms", median("ours", "wall_ms"), {"bare reads": median("bare", "wall_ms")})
    benchlib.row("peak resident", "MiB", median("ours", "peak_mib"),
                 {"bare reads": median("bare", "peak_mib")})


def main():
    if not shutil.which("strace"):
        benchlib.skip("strace is missing")
    subprocess.run(["ninja", "-C", benchlib.BUILD, "bench/bench_threads"], check=True,
                   stdout=subprocess.DEVNULL)
    target = subprocess.Popen([READER, "run", str(THREADS), str(OTHERS)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        benchlib.check("the target is up", target.stdout.readline() == "ready\n")
        compare(target.pid)
    finally:
        target.kill()
        target.wait()


if __name__ == "__main__":
    sys.exit(main())
