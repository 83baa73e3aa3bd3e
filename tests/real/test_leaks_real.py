#!/usr/bin/env python3
# timeout: 600
"""What nothing points to in real programs: live, with --fork, in a core of gcore and of the kernel.

Both cores are of one moment (cores.py), so they must hold the same blocks, and the same of them must
be lost. A real program at rest loses next to nothing: what these do lose was looked at block by
block, and more than that is a false alarm (TRUE_LEAKS). One program leaks on purpose: .NET throws
4,010 cached exceptions, each of which leaves a record behind. Prints TAP.
"""

import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]

import cores                                              # noqa: E402
import memwhy                                             # noqa: E402
import tap                                                # noqa: E402
from procfs import MIB                                    # noqa: E402
from targets import TARGETS, Unavailable                  # noqa: E402

PAUSE_SECONDS_MAX = 1.0   # --max-pause is 0.1; the test machine may be busy
# Blocks that these programs have really lost, at most.
TRUE_LEAKS = {
    # the array of main's own copy of the environment, once setenv has made another; a path
    "postgresql": 2,
    # options that the launcher makes, -Djava.class.path and -Dsun.java.command; the header of the
    # arena of C1's own tables
    "openjdk": 3,
}
RECORDS = 3001 + 1009
RECORD_BYTES = 3400            # usable, .NET 10 on x64
STALE_MAX = 20                 # records that old words in pages of the JIT still point to


def note(text):
    """Figures for whoever reads the log."""
    print(f"# {text}", file=sys.__stdout__, flush=True)


class DotnetThrows(TARGETS["dotnet"]):
    """The CLR leaks a record for each exception that it throws from its cache."""

    source = "dotnet-throws"
    secrets = ()


class Answer:
    """`leaks` and `blocks` of one core."""

    def __init__(self, path):
        self.runs = [memwhy.Run(command, path, "--json")
                     for command in ("leaks", "blocks", "report")]
        self.leaks, self.blocks, self.report = (run.json() for run in self.runs)
        self.groups = self.blocks["groups"]
        self.in_use = tuple(sum(group[key] for group in self.groups) for key in ("count", "bytes"))
        self.large = [group for group in self.groups if group["bytes"] > MIB]

    def is_explained(self):
        """Exact; or uncertain as no page told that the holes of a core are the kernel's own, so that
        mappings which were never written to, and are not in it, count as missing."""
        return self.leaks["exact"] or "core-residency-unknown" in {
            finding["kind"] for finding in self.leaks["findings"]}

    def counts(self):
        """All that must be the same in another core of the same moment."""
        found = self.leaks
        return (found["reachable_count"], found["reachable_bytes"],
                found["unreachable_count"] + found["uncertain_count"],
                found["unreachable_bytes"] + found["uncertain_bytes"])

    def sizes(self, *keys):
        return {tuple(group[key] for key in ("size_bytes", "count", *keys))
                for group in self.groups}


def pause_of(run):
    """Seconds that `leaks` says it held the target for."""
    match = re.search(r"paused ([\d.]+) (µs|us|ms|s),", run.out)
    if not match:
        raise AssertionError(f"{run}: no pause in {run.out[:300]}")
    return float(match[1]) * {"s": 1, "ms": 1e-3}.get(match[2], 1e-6)


class RealLeaks:
    """Mixed into one TestCase for each program; all is read before the first test."""

    target_class = None
    arguments = {}
    exit_code = 0

    @classmethod
    def setUpClass(cls):
        target = cls.target_class(**cls.arguments)
        cls.lost_max = TRUE_LEAKS.get(target.name, 0)
        try:
            target.__enter__()
        except Unavailable as error:
            raise unittest.SkipTest(str(error)) from error
        try:
            cls.ask_live(target)
            cls.ask_cores(target)
        finally:
            target.__exit__(None, None, None)

    @classmethod
    def ask_live(cls, target):
        cls.live = {}
        for words in ((), ("--fork",)):
            run = memwhy.Run("leaks", target.pid, *words)
            json = memwhy.Run("leaks", target.pid, "--json", *words)
            cls.live[words] = run, json
            found = json.json()
            note(f"{cls.__name__} live {' '.join(words)}: exit {run.code}, "
                 f"paused {pause_of(run):.3f} s, {run.seconds:.2f} s in all, "
                 f"lost {found['unreachable_count']}, uncertain {found['uncertain_count']}")
        cls.live_report = memwhy.Run("report", target.pid, "--json").json()
        cls.serves = target.ping()

    @classmethod
    def ask_cores(cls, target):
        cls.answers, cls.lacking = {}, {}
        cores.stop(target.pid)
        for write in (cores.gcore_of_now, cores.kernel_core):
            try:
                path = write(target.pid, target.directory)
            except Unavailable as why:
                cls.lacking[write.__name__] = str(why)
                continue
            cls.answers[write.__name__] = answer = Answer(path)
            os.unlink(path)
            cls.tell(f"{cls.__name__} {write.__name__}", answer)

    @staticmethod
    def tell(name, answer):
        found = answer.leaks
        bare = sum(group["layout"] is None for group in answer.large)
        note(f"{name}: {answer.in_use[0]} blocks, {answer.in_use[1]} bytes in use; "
             f"lost {found['unreachable_count']} of {found['unreachable_bytes']} bytes, "
             f"uncertain {found['uncertain_count']}; {len(answer.large)} sizes above 1 MiB, "
             f"{bare} without a layout; leaks took {answer.runs[0].seconds:.2f} s")

    def core(self, name):
        if name not in self.answers:
            self.skipTest(self.lacking[name])
        return self.answers[name]

    # Live ------------------------------------------------------------------

    def test_live(self):
        for words, runs in self.live.items():
            with self.subTest(" ".join(words)):
                for run in runs:
                    self.assertEqual(run.code, self.exit_code, run)
                self.assertLessEqual(pause_of(runs[0]), PAUSE_SECONDS_MAX)
                self.assertEqual([line for line in runs[0].out.splitlines() if len(line) > 100], [])
        self.assertTrue(self.serves)

    def test_live_loses_nothing_more(self):
        for words, (_, run) in self.live.items():
            with self.subTest(" ".join(words)):
                self.assertLessEqual(run.json()["unreachable_count"], self.lost_max,
                                     run.json()["groups"])

    # Cores -----------------------------------------------------------------

    def test_cores_say_the_same(self):
        gcore, kernel = self.core("gcore_of_now"), self.core("kernel_core")
        for answer in (gcore, kernel):
            self.assertEqual([run.code for run in answer.runs[:2]], [self.exit_code] * 2)
        self.assertEqual(gcore.in_use, kernel.in_use)
        self.assertEqual(gcore.counts(), kernel.counts())
        self.assertEqual(gcore.sizes(), kernel.sizes())
        if gcore.leaks["exact"] and kernel.leaks["exact"]:
            self.assertEqual(gcore.sizes("unreachable_count"), kernel.sizes("unreachable_count"))

    def test_blocks_are_those_of_leaks(self):
        for name, answer in self.answers.items():
            with self.subTest(name):
                found = answer.leaks
                self.assertTrue(answer.is_explained(), found["findings"])
                self.assertEqual(answer.in_use, tuple(
                    sum(found[f"{what}_{of}"] for what in ("reachable", "unreachable", "uncertain"))
                    for of in ("count", "bytes")))

    def test_cores_lose_nothing_more(self):
        for name, answer in self.answers.items():
            with self.subTest(name):
                self.assertLessEqual(answer.leaks["unreachable_count"], self.lost_max,
                                     answer.leaks["groups"])
                wrong = [verdict["summary"] for verdict in answer.report["verdicts"]
                         if verdict["class"] == "leaked" and verdict["basis"] != "possible"
                         and not verdict["minor"]]
                self.assertEqual(wrong, [])

    def test_large_groups_have_a_layout_or_none(self):
        """The key is there, null when nothing is known of them; all of these programs are known."""
        for name, answer in self.answers.items():
            with self.subTest(name):
                for group in answer.large:
                    self.assertTrue(group["layout"] is None or group["layout"].strip(), group)
                bare = sum(group["bytes"] for group in answer.large if group["layout"] is None)
                self.assertLess(bare, answer.in_use[1] // 2 + 1)
        for group in answer.large:
            note(f"{type(self).__name__}: {group['count']} of {group['size_bytes']} bytes: "
                 f"{group['layout']}")

    def test_no_secret_is_shown(self):
        for answer in self.answers.values():
            for run in answer.runs:
                for secret in self.target_class.secrets:
                    self.assertNotIn(secret, run.out)


class PostgreSQLTest(RealLeaks, unittest.TestCase):
    target_class = TARGETS["postgresql"]


class Python3Test(RealLeaks, unittest.TestCase):
    target_class = TARGETS["python3"]


class NodeTest(RealLeaks, unittest.TestCase):
    target_class = TARGETS["node"]


class OpenJDKTest(RealLeaks, unittest.TestCase):
    target_class = TARGETS["openjdk"]


class Icinga2Test(RealLeaks, unittest.TestCase):
    target_class = TARGETS["icinga2"]
    arguments = {"hosts": 500, "rounds": 1, "parallel": 8}


class DotnetTest(RealLeaks, unittest.TestCase):
    target_class = TARGETS["dotnet"]


class RedisTest(RealLeaks, unittest.TestCase):
    """jemalloc is not walked: that is said, and nothing else."""

    target_class = TARGETS["redis"]
    exit_code = 4

    def test_says_that_it_is_not_walked(self):
        for run, json in self.live.values():
            self.assertIn("jemalloc", json.json()["partial"]["text"])
            self.assertNotIn("nothing is leaked:", run.out)
        for name, answer in self.answers.items():
            with self.subTest(name):
                self.assertIn("jemalloc", answer.leaks["partial"]["text"])


class DotnetThrowsTest(RealLeaks, unittest.TestCase):
    """4,010 records: all but a few that old words seem to hold are named."""

    target_class = DotnetThrows

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lost_max = RECORDS

    def check_groups(self, found):
        records = [group for group in found["groups"] if group["usable_bytes"] == RECORD_BYTES]
        self.assertEqual(len(records), 1, found["groups"])
        self.assertEqual(found["groups"], records, "something else is lost, too")
        self.assertLessEqual(records[0]["count"], RECORDS)
        self.assertGreaterEqual(records[0]["count"], RECORDS - STALE_MAX)
        self.assertIn("CLR exception record", records[0]["layout"])
        self.assertRegex(records[0]["caller"], r"libcoreclr\.so\+0x[0-9a-f]+, after: call ")

    def check_report(self, report):
        first = report["verdicts"][0]
        self.assertEqual((first["id"], first["class"], first["basis"]),
                         ("native-leak", "leaked", "proven"))
        lost = first["bytes"] / (RECORD_BYTES + 8)
        self.assertEqual(lost, int(lost))
        self.assertGreaterEqual(lost, RECORDS - STALE_MAX)
        for part in ("CLR exception record", "libcoreclr.so+0x", f"{int(lost):,} blocks"):
            self.assertIn(part, str(first))
        self.assertIn(f"{RECORDS:,} blocks in use", str(report["known"]))

    def test_records_live(self):
        for words, (_, run) in self.live.items():
            with self.subTest(" ".join(words)):
                self.check_groups(run.json())
        self.check_report(self.live_report)

    def test_records_in_cores(self):
        for name, answer in self.answers.items():
            with self.subTest(name):
                self.check_groups(answer.leaks)
                self.check_report(answer.report)

    def test_cores_lose_nothing_more(self):
        for name, answer in self.answers.items():
            in_use = [group for group in answer.groups if group["usable_bytes"] == RECORD_BYTES]
            with self.subTest(name):
                self.assertEqual([group["count"] for group in in_use], [RECORDS])


if __name__ == "__main__":
    memwhy.require()
    cores.allow()
    tap.main()
