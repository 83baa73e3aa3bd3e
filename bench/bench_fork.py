"""`heap --fork`: its pause is at most 1.5 times what a fork by the process itself takes.

The same process of 1 GiB in small pages forks itself and is forked by memwhy in turn, so that both
meet the same machine. The answer is checked: the heap of the copy is sound and all of its blocks
are there.
"""
import json
import statistics
import subprocess

import benchlib

MEBIBYTES, RUNS, TIMES_MAX = 1024, 11, 1.5
BLOCKS = MEBIBYTES * ((1 << 20) // 4016)


def fork_itself(target):
    target.stdin.write("fork\n")
    target.stdin.flush()
    return int(target.stdout.readline()) / 1e6


def fork_by_memwhy(target):
    done = subprocess.run([benchlib.MEMWHY, "report", str(target.pid), "--json", "--fork"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 3 and "leave out --fork" in done.stderr:
        benchlib.skip(done.stderr.splitlines()[0])
    return done.returncode, json.loads(done.stdout)


def main():
    target = subprocess.Popen([benchlib.BUILD / "bench/fork_target", str(MEBIBYTES)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        target.stdout.readline()
        bare, ours, wrong = [], [], []
        for _ in range(RUNS):
            bare.append(fork_itself(target))
            code, report = fork_by_memwhy(target)
            heap = report["allocators"][0]
            if code != 0 or not heap["reconciled"] or heap["in_use_count"] < BLOCKS:
                wrong.append((code, heap["reconciled"], heap["in_use_count"]))
            ours.append(report["longest_pause_seconds"] * 1e3)
            wrong += [f"{report['pauses']} pauses"] if report["pauses"] != 1 else []
        benchlib.check("each copy's heap is sound and whole, with one pause", not wrong, wrong)
        bare_ms, ours_ms = statistics.median(bare), statistics.median(ours)
        benchlib.row(f"pause of --fork, median of {RUNS}", "ms", ours_ms,
                     {"fork by itself": bare_ms}, TIMES_MAX * bare_ms)
    finally:
        target.kill()
        target.wait()


if __name__ == "__main__":
    main()
