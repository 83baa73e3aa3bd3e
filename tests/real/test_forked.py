#!/usr/bin/env python3
# timeout: 600
"""Servers that fork: PostgreSQL, nginx, and a Python master with workers, as cgroups and alone.

Prints TAP. The truth is the kernel's smaps_rollup and smaps of each process, read here. A server
does not stand quite still, so figures may differ a little; tests/live/test_group.py is exact.
The cgroup is a directory made here that lists the server's processes: no real one is touched.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]

import memwhy                                             # noqa: E402
import procfs                                             # noqa: E402
import tap                                                # noqa: E402
from target import Target, TargetError                    # noqa: E402
from targets import TARGETS, Unavailable                  # noqa: E402

MIB = 1 << 20
MOVES = MIB  # a server's own timers touch pages, and others map its files, between two readings


class Prefork(Target):
    """A Python master and four workers; two of them have written to every object."""

    name = "prefork"
    packages = ("python3",)
    program = "/usr/bin/python3"
    runtime = "cpython"
    mode = "plain"

    def _start(self):
        program = os.path.join(HERE, "programs", "prefork.py")
        self.server = self.launch(["/usr/bin/python3", program, self.mode],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        words = self.server.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise TargetError(f"prefork said {words}")
        self.pids = {"master": self.server.pid}
        self.pids.update((f"worker {n}", int(pid)) for n, pid in enumerate(words[1:]))

    def ping(self):
        self.server.stdin.write("ping\n")
        self.server.stdin.flush()
        return self.server.stdout.readline() == "pong\n"


class PreforkFrozen(Prefork):
    mode = "freeze"


def rollup(pid):
    """smaps_rollup in bytes."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        rows = [line.split() for line in list(file)[1:]]
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}


def total(pids, key):
    return sum(rollup(pid)[key] for pid in pids)


def executable(pid):
    about = os.stat(f"/proc/{pid}/exe")
    return about.st_dev, about.st_ino


def forked_bytes(pid):
    """Private anonymous bytes that other processes map, too."""
    shared, row = 0, None

    def of(row):
        if row["shared"]:
            return 0
        both = row["Shared_Dirty"] + (0 if row["file"] else row["Shared_Clean"])
        return min(both, row["Anonymous"])

    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                shared += of(row) if row else 0
                row = {"shared": words[1].endswith("s"), "file": len(words) > 5
                       and words[5].startswith("/")}
            elif len(words) == 3 and words[2] == "kB":
                row[words[0].rstrip(":")] = int(words[1]) * 1024
    return shared + of(row)


def find(verdicts, name):
    return next((verdict for verdict in verdicts if verdict["id"] == name), None)


class Forked:
    """What holds of every such server; a class for each is made below."""

    target_class = None

    @classmethod
    def setUpClass(cls):
        cls.target = cls.target_class()
        try:
            cls.target.__enter__()
        except Unavailable as why:
            raise unittest.SkipTest(str(why)) from why
        top = cls.target.pids.get("postmaster") or cls.target.pids["master"]
        cls.pids = [top, *(pid for pid, _ in procfs.descendants(top))]
        cls.root = tempfile.mkdtemp(prefix="memwhy-cgroup-")
        os.makedirs(os.path.join(cls.root, "box.slice", "x.service"))
        with open(os.path.join(cls.root, "box.slice", "x.service", "cgroup.procs"), "w",
                  encoding="ascii") as file:
            file.write("".join(f"{pid}\n" for pid in cls.pids))

    @classmethod
    def tearDownClass(cls):
        cls.target.__exit__(None, None, None)
        shutil.rmtree(cls.root, ignore_errors=True)

    def ask(self, *words):
        return memwhy.Run(*words, "--cgroup-root", self.root)

    def test_group(self):
        run = self.ask("cgroup:/box.slice/x.service", "--json")
        self.assertIn(run.code, (0, 4), run)
        group = run.json()
        self.assertEqual(sorted(row["pid"] for row in group["processes"]), sorted(self.pids))
        self.assertEqual(group["read_count"], len(self.pids))
        for name, key in (("rss_bytes", "Rss"), ("anonymous_bytes", "Anonymous"),
                          ("pss_anon_bytes", "Pss_Anon"), ("pss_bytes", "Pss")):
            self.assertAlmostEqual(group[name], total(self.pids, key), delta=MOVES, msg=name)
        again = group["anonymous_bytes"] - group["pss_anon_bytes"]
        verdict = find(group["verdicts"], "copy-on-write")  # of the very figures beside it
        if again >= MIB and again >= group["rss_bytes"] / 50:
            self.assertEqual(verdict["bytes"], again)
        else:
            self.assertIsNone(verdict)
        sizes = [row["pss_bytes"] for row in group["processes"]]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertEqual(group["worst"]["target"]["pid"], group["processes"][0]["pid"])
        self.assertTrue(self.target.ping())

    def test_each_process(self):
        family = [pid for pid in self.pids if executable(pid) == executable(self.pids[0])]
        for pid in self.pids:
            with self.subTest(pid=pid):
                report = memwhy.Run("report", pid, "--json").json()
                shared, rss = forked_bytes(pid), report["rss_bytes"]
                verdict = find(report["verdicts"], "copy-on-write")
                if verdict is None:
                    self.assertLess(shared, max(MIB, rss / 50) + MOVES / 4)
                    continue
                self.assertGreater(shared, max(MIB, rss / 50) - MOVES / 4)
                said = [item["value"] for item in verdict["evidence"]]
                self.assertEqual(said[1], len(family))
                again = total(family, "Anonymous") - total(family, "Pss_Anon")
                for value, wanted in ((said[0], shared), (said[2], total(family, "Rss")),
                                      (said[3], total(family, "Pss")), (said[4], again)):
                    self.assertAlmostEqual(value, wanted, delta=MOVES)
                self.assertLessEqual(verdict["bytes"], said[0])
                inside = sum(one["bytes"] for one in report["verdicts"]
                             if one["part_of"] is None and one["class"] != "outside")
                self.assertLessEqual(inside, rss)
        self.assertTrue(self.target.ping())

    def test_screen(self):
        run = self.ask("cgroup:/box.slice/x.service", "--no-heap")
        self.assertEqual([line for line in run.out.splitlines() if len(line) > 100], [])
        for part in ("cgroup v2 /box.slice/x.service", "PROCESSES", "WORST  PID "):
            self.assertIn(part, run.out)
        for secret in self.target.secrets:
            self.assertNotIn(secret, run.out)


class PostgreSQLTest(Forked, unittest.TestCase):
    target_class = TARGETS["postgresql"]


class NginxTest(Forked, unittest.TestCase):
    target_class = TARGETS["nginx"]


class PreforkTest(Forked, unittest.TestCase):
    target_class = Prefork

    def test_written_to(self):
        """Workers that looked at the objects share less; the report says what they copied."""
        idle, busy = self.target.pids["worker 0"], self.target.pids["worker 1"]
        self.assertGreater(forked_bytes(idle), forked_bytes(busy) + 10 * MIB)
        copies = [find(memwhy.Run("report", pid, "--json").json()["verdicts"],
                       "copy-on-write")["remedies"][1]["gain_high_bytes"] for pid in (idle, busy)]
        self.assertGreater(copies[1], copies[0] + 10 * MIB)
        text = memwhy.Run("report", busy, "--json").out
        self.assertIn("gc.freeze()", text)


class PreforkFrozenTest(Forked, unittest.TestCase):
    target_class = PreforkFrozen


if __name__ == "__main__":
    memwhy.require()
    tap.main()
