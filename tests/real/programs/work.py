"""A Python process with a past: dicts, lists, strings, threads; half freed.

Prints "ready", then answers each line on standard input with "pong" and
ends at end of file.
"""

import sys
import threading

keep = {}
for i in range(60_000):
    keep[f"key-{i}"] = [i, str(i) * 3, {"n": i}]
for i in range(0, 60_000, 2):
    del keep[f"key-{i}"]
blobs = [bytes(5_000 + i % 1_000) for i in range(4_000)]
del blobs[::2]
big = bytearray(11_000_003)


def churn():
    scratch = [bytes(700 + n % 9_000) for n in range(3_000)]
    done.wait(0.01)
    del scratch
    done.wait()


done = threading.Event()
workers = [threading.Thread(target=churn, daemon=True) for _ in range(4)]
for worker in workers:
    worker.start()
threading.Event().wait(0.3)

print("ready", flush=True)
for _ in sys.stdin:
    print("pong", flush=True)
