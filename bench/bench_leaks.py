"""`leaks` on cores of 10 million blocks in 48 heaps, half of them freed and 50,000 lost, and of
2 million blocks of 30 pointers each: beside `cat` of the same warm file, and beside chap when
MEMWHY_CHAP says where it is. What is lost must be exactly what the program lost, in every run.

BENCH_BLOCKS: blocks for each of the 8 threads, 1,250,000 unless set; the dense core has 1.6 times
as many.
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

BLOCKS = int(os.environ.get("BENCH_BLOCKS", "1250000"))
RUNS = 5
# name, threads, blocks for each, order, lost, runs of cat (None: not without chap), times as quick
# as chap, peak MiB
CASES = (("many", 8, BLOCKS, "ascending", BLOCKS // 25, 4.0, 30, 165),
         ("dense", 1, BLOCKS * 8 // 5, "dense", BLOCKS // 50, None, 25, 500))


def core_make(folder, threads, blocks, order, lost):
    """(core, count and bytes of what is lost); the core is None when the kernel writes none here."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
    words = [benchlib.BUILD / "bench/manyblocks", str(threads), str(blocks), order, "abort",
             str(lost)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          cwd=folder) as child:
        truth = [int(word) for word in child.stdout.readline().split()]
        child.communicate("\n")
    found = [path for path in Path(folder).iterdir() if path.name.startswith("core")]
    return found[0] if found else None, tuple(truth[6:8])


def seconds(command, text=None):
    started = time.monotonic()
    out = subprocess.run(command, input=text, stdout=subprocess.PIPE, check=False,
                         stderr=subprocess.DEVNULL, text=True).stdout
    return time.monotonic() - started, out


def cat_seconds(path):
    started = time.monotonic()
    with open("/dev/null", "wb") as null:
        subprocess.run(["cat", path], stdout=null, check=True)
    return time.monotonic() - started


def chap_seconds(core):
    """None when there is no chap."""
    if "MEMWHY_CHAP" not in os.environ:
        return None
    took, _ = seconds([os.environ["MEMWHY_CHAP"], core], "count leaked\n")
    return took


def bench(case, core, truth):
    name, _, _, _, _, cat_ratio, chap_ratio, peak = case
    command = [benchlib.MEMWHY, "leaks", core, "--json"]
    cats, ours = [], []
    for _ in range(RUNS):
        cats.append(cat_seconds(core))
        took, out = seconds(command)
        ours.append(took)
        answer = json.loads(out)
        got = (answer["unreachable_count"], answer["unreachable_bytes"])
        benchlib.check(f"{name}: what is lost", got == truth, (got, truth))
    cat, our = statistics.median(cats[1:]), statistics.median(ours[1:])
    chap = chap_seconds(core)
    peers = {"cat": 1e3 * cat}
    limit = 1e3 * cat_ratio * cat if cat_ratio else None
    if chap is not None:
        peers["chap"] = 1e3 * chap
        limit = 1e3 * chap / chap_ratio
    beside = "" if chap is not None else " (no chap: MEMWHY_CHAP)"
    benchlib.row(f"{name}: leaks{beside}", "ms", 1e3 * our, peers, limit)
    benchlib.row(f"{name}: core", "MiB", core.stat().st_size / (1 << 20))
    benchlib.row(f"{name}: peak resident", "MiB", benchlib.measure(command, 1).peak_mib, {}, peak)


def main():
    subprocess.run(["ninja", "-C", benchlib.BUILD, "bench/manyblocks", "bench/measure", "memwhy"],
                   check=True, stdout=subprocess.DEVNULL)
    pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="ascii").strip()
    if "/" in pattern or "|" in pattern:
        benchlib.skip("the kernel writes no core into the working directory here")
    for case in CASES:
        folder = tempfile.mkdtemp(prefix="memwhy-bench-", dir=os.environ.get("BENCH_DIR"))
        try:
            core, truth = core_make(folder, *case[1:5])
            if core:
                bench(case, core, truth)
            else:
                benchlib.skip("the kernel wrote no core")
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
