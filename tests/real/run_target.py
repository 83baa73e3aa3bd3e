#!/usr/bin/env python3
"""Start one real program with its work done, print its pids, hold it.

    run_target.py NAME [--hold SECONDS] [--rounds N --parallel N --hosts N]

The first line is "pid N", the process worth asking about; further lines name
the others. Ends after SECONDS (600), at SIGINT, SIGTERM or SIGHUP, and leaves
nothing behind. The options after --hold are for icinga2: the rounds of
parallel API requests to send before it is handed over (3 of 50; 0 for none).
"""

import argparse
import signal
import sys
import time

import procfs
from targets import TARGETS, TargetError, Unavailable


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(TARGETS))
    parser.add_argument("--hold", type=float, default=600, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parallel", type=int, default=50)
    parser.add_argument("--hosts", type=int, default=3000)
    return parser.parse_args(argv)


def make(options):
    if options.name == "icinga2":
        return TARGETS[options.name](options.hosts, options.rounds, options.parallel)
    return TARGETS[options.name]()


def describe(target):
    print(f"pid {target.pid}", flush=True)
    for role, pid in target.pids.items():
        mib = procfs.smaps_sum(pid, "Rss") / procfs.MIB
        print(f"{role} {pid}: RSS {mib:.1f} MiB, {procfs.thread_count(pid)} threads,"
              f" {procfs.arena_heaps_guess(pid)} mappings aligned like arena heaps",
              flush=True)


def main(argv):
    options = parse(argv)

    def leave(number, _frame):
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, leave)
    try:
        with make(options) as target:
            describe(target)
            end = time.monotonic() + options.hold
            while time.monotonic() < end and target.running():
                time.sleep(0.2)
            if not target.running():
                print("the target ended by itself", file=sys.stderr)
                return 1
    except Unavailable as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 77
    except TargetError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
