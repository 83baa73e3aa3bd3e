"""What a heap walk costs beside a bare read of the same pages, on one thread (bench/bench_walk.c).

The walker's answer is checked against the program's own mallinfo2() in every run. Cost is CPU time.
"""
import subprocess
import sys

import benchlib

RUNS = 9
# Walk to bare read, live: at most this. Following fastbins reads their pages once more.
RATIO_MAX = {"small": 1.8, "fastbins": 3.0, "large": 1.25}


def figures(shape):
    """key -> number, or None when the answer was wrong; the program then says what."""
    done = subprocess.run([benchlib.BUILD / "bench/bench_walk", shape, str(RUNS)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    benchlib.check(f"{shape}: blocks and bytes are the program's own", done.returncode == 0,
                   done.stderr.strip())
    if done.returncode != 0:
        return None
    return {key: int(value) for key, value in (line.split() for line in done.stdout.splitlines())}


def main():
    subprocess.run(["ninja", "-C", benchlib.BUILD, "bench/bench_walk"], check=True,
                   stdout=subprocess.DEVNULL)
    for shape, ratio in RATIO_MAX.items():
        got = figures(shape)
        if got is None:
            return
        for kind in ("live", "copy"):
            walk, bare = got[f"{kind}_walk_ns"], got[f"{kind}_bare_ns"]
            read, blocks = got[f"{kind}_bytes"], got[f"{kind}_blocks"]
            benchlib.row(f"{shape}, {kind}: per block", "ns", walk / blocks,
                         {"bare read": bare / blocks})
            benchlib.row(f"{shape}, {kind}: per GiB", "ms", walk / 1e6 / (read / 2**30),
                         {"bare read": bare / 1e6 / (read / 2**30)},
                         ratio * bare / 1e6 / (read / 2**30) if kind == "live" else None)


if __name__ == "__main__":
    sys.exit(main())
