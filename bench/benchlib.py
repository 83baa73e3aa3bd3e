"""What the benches share: measuring commands, and rows that bench/run prints side by side.

A bench is a file bench/bench_*.py. It checks the answer of what it times (`check`), says what it
measured (`row`), and may state a limit that the figure must keep. It runs as a process of its own
and prints one JSON object a line; bench/run collects them.
"""
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("MEMWHY_BUILD", SOURCE / "build"))
MEMWHY = os.environ.get("MEMWHY", str(BUILD / "memwhy"))


class Cost:
    """Figures over several runs of one command."""

    def __init__(self, wall_ns, cpu_us, peak_kib, codes):
        self.wall_ms = statistics.median(wall_ns) / 1e6
        self.wall_ms_min, self.wall_ms_max = min(wall_ns) / 1e6, max(wall_ns) / 1e6
        self.cpu_ms = statistics.median(cpu_us) / 1e3
        self.peak_mib = max(peak_kib) / 1024
        self.codes = codes


def measure(command, runs=21):
    """Runs a command and returns its Cost; one more run before does not count."""
    text = subprocess.run([BUILD / "bench/measure", str(runs + 1), *command], check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
    rows = [[int(word) for word in line.split()] for line in text.splitlines()[2:]]
    return Cost([row[0] for row in rows], [row[1] + row[2] for row in rows],
                [row[3] for row in rows], sorted({row[4] for row in rows}))


def row(what, unit, ours, peers=None, limit=None):
    """One figure; peers: name -> the same figure of another program doing comparable work."""
    print(json.dumps({"row": what, "unit": unit, "ours": ours, "peers": peers or {},
                      "limit": limit}), flush=True)


def check(what, good, got=""):
    """An answer that must be right for the figures to mean anything."""
    print(json.dumps({"check": what, "good": bool(good), "got": str(got)}), flush=True)


def skip(why):
    print(json.dumps({"skip": why}), flush=True)
    sys.exit(0)
