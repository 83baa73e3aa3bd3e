"""`report` on an idle python3: what a first look costs. At most 15 ms and 16 MB.

The peer is the least that any such tool must do: one read of /proc/PID/smaps. The answer is
checked: the rss in the report is the sum that the kernel gives, and the categories add up to it.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

import benchlib

WALL_MS_MAX, PEAK_MIB_MAX = 15.0, 16e6 / (1 << 20)


def kernel_rss_bytes(pid):
    text = Path(f"/proc/{pid}/smaps").read_text()
    return sum(int(kib) for kib in re.findall(r"^Rss:\s+(\d+) kB", text, re.M)) << 10


def main():
    target = subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        target.stdout.readline()
        pid = str(target.pid)
        done = subprocess.run([benchlib.MEMWHY, "report", pid, "--json"], check=True,
                              stdout=subprocess.PIPE)
        report = json.loads(done.stdout)
        rss = kernel_rss_bytes(pid)
        benchlib.check("rss_bytes is the kernel's", report["rss_bytes"] == rss,
                       f"{report['rss_bytes']}, kernel {rss}")
        total = sum(one["rss_bytes"] for one in report["categories"]) + report["unknown_bytes"]
        benchlib.check("categories and unknown are rss_bytes", total == report["rss_bytes"], total)
        walked = [one["kind"] for one in report["allocators"] if one["in_use_count"]]
        benchlib.check("the heap was walked", walked == ["glibc"], walked)

        ours = benchlib.measure([benchlib.MEMWHY, "report", pid])
        peer = benchlib.measure(["cat", f"/proc/{pid}/smaps"])
        benchlib.check("every run ended well", ours.codes == [0] and peer.codes == [0], ours.codes)
        benchlib.row("wall, median of 21", "ms", ours.wall_ms, {"cat smaps": peer.wall_ms},
                     WALL_MS_MAX)
        benchlib.row("peak resident", "MiB", ours.peak_mib, {"cat smaps": peer.peak_mib},
                     PEAK_MIB_MAX)
    finally:
        target.kill()
        target.wait()


if __name__ == "__main__":
    main()
