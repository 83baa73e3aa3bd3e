"""A server in the manner of gunicorn: a master loads everything, then forks its workers.

    prefork.py freeze|plain

The master builds a table of small objects and forks four workers; each looks at every object once,
which counts references in it and so writes to its page, and collects garbage. With "freeze" the
master calls gc.freeze() before. Prints "ready" and the pids of the workers, reads lines and answers
"pong", ends with its input; the workers end with it.
"""

import ctypes
import gc
import os
import signal
import sys

WORKERS = 4
OBJECTS = 200_000
PR_SET_PDEATHSIG = 1


def work(table, ready):
    """One worker: half of it looks at every object, all of it stands still then."""
    gc.collect()
    if ready % 2:
        for item in table:
            item.get("name")
    os.write(1, b".")
    while True:
        signal.pause()


def main():
    table = [{"id": n, "name": f"object number {n}"} for n in range(OBJECTS)]
    if sys.argv[1] == "freeze":
        gc.collect()
        gc.freeze()
    master = os.getpid()
    done, write = os.pipe()
    pids = []
    for number in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != master:
                os._exit(1)
            os.dup2(write, 1)
            work(table, number)
        pids.append(pid)
    for _ in pids:
        os.read(done, 1)
    print("ready", *pids, flush=True)
    for _ in sys.stdin:
        print("pong", flush=True)


if __name__ == "__main__":
    main()
