"""What `report --json` must hold for any real program, as unittest methods.

The contract is memwhy.report/1; the other side of each comparison comes from
the kernel (procfs.py) or from the arithmetic of the contract itself.
"""

import functools
import os
import unittest

import memwhy
import procfs
from process import SECRET_IN_ENVIRONMENT
from procfs import MIB
from targets import TARGETS, Unavailable

UNKNOWN_SHARE_MAX = 0.03
PAUSE_SECONDS_MAX = 1.0        # --max-pause is 0.1; the test machine may be busy


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def of_kind(entries, kind):
    return [entry for entry in entries if entry["kind"] == kind]


def each_process(check):
    """CHECK(self, observation, report) for every process of the target."""
    @functools.wraps(check)
    def test(self):
        for role, seen in self.seen.items():
            with self.subTest(role):
                check(self, seen, seen.report)
    return test


class ReportChecks:
    """Mixed into one unittest.TestCase for each target; see for_target()."""

    target_name = None
    arguments = {}

    @classmethod
    def setUpClass(cls):
        target = TARGETS[cls.target_name](**cls.arguments)
        try:
            target.__enter__()
        except Unavailable as error:
            raise unittest.SkipTest(str(error)) from error
        cls.addClassCleanup(target.__exit__, None, None, None)
        cls.target = target
        cls.seen = {role: memwhy.Observation(pid)
                    for role, pid in target.pids.items()}

    @each_process
    def test_answers_in_full(self, seen, report):
        self.assertEqual(seen.run.code, 0, seen.run)
        self.assertEqual(report["schema"], "memwhy.report/1")
        target = report["target"]
        self.assertEqual(target["kind"], "live")
        self.assertEqual(target["pid"], seen.pid)
        self.assertEqual(target["exe"], os.readlink(f"/proc/{seen.pid}/exe"))
        self.assertIn(target["threads"], {seen.before.threads, seen.after.threads})

    @each_process
    def test_every_resident_byte_once(self, seen, report):
        rows = report["categories"]
        ids = [row["id"] for row in rows]
        self.assertEqual(len(ids), len(set(ids)), "a category is listed twice")
        self.assertLessEqual(set(ids), memwhy.CATEGORIES)
        for row in rows:
            self.assertTrue(is_count(row["rss_bytes"]), row)
            self.assertTrue(is_count(row["size_bytes"]), row)
            self.assertTrue(row["source"], row)
        total = sum(row["rss_bytes"] for row in rows) + report["unknown_bytes"]
        self.assertEqual(total, report["rss_bytes"])

    @each_process
    def test_little_is_unknown(self, seen, report):
        share = report["unknown_bytes"] / report["rss_bytes"]
        self.assertLessEqual(share, UNKNOWN_SHARE_MAX,
                             f"{report['unknown_bytes']} bytes are unknown")

    @each_process
    def test_total_is_the_kernels(self, seen, report):
        now = seen.after.vm_rss
        slack = max(MIB, now // 50)
        self.assertAlmostEqual(report["rss_bytes"], now, delta=slack)
        low, high = sorted((seen.before.rss, seen.after.rss))
        self.assertGreaterEqual(report["rss_bytes"], low - slack)
        self.assertLessEqual(report["rss_bytes"], high + slack)
        self.assertAlmostEqual(report["peak_rss_bytes"], seen.after.peak, delta=slack)

    @each_process
    def test_target_goes_on(self, seen, report):
        self.assertTrue(procfs.is_running(seen.pid))
        self.assertEqual(seen.after.tracer, 0)
        self.assertFalse(set(seen.after.thread_states) & set("tT"), "a thread is stopped")
        self.assertEqual(seen.after.children, seen.before.children)
        self.assertLessEqual(report["longest_pause_seconds"], PAUSE_SECONDS_MAX)
        self.assertLessEqual(report["longest_pause_seconds"], report["paused_seconds"] + 1e-9)
        if report["pauses"] == 0:
            self.assertEqual(report["paused_seconds"], 0)
        self.assertTrue(self.target.ping())

    @each_process
    def test_allocator_is_named(self, seen, report):
        self.assertTrue(report["allocators"], "no allocator found")
        kinds = [one["kind"] for one in report["allocators"]]
        if self.target.allocator == "glibc":
            self.assertEqual(kinds[0], "glibc")
        else:
            self.assertIn(self.target.allocator, kinds)
            ids = [row["id"] for row in report["categories"]]
            self.assertIn("malloc.unsplit", ids)

    @each_process
    def test_heap_reconciles(self, seen, report):
        for heap in of_kind(report["allocators"], "glibc"):
            self.check_heap(heap)
        heaps = report["allocators"]
        if len(heaps) == 1 and heaps[0]["kind"] == "glibc":
            self.check_heap_in_account(heaps[0], report)

    def check_heap(self, heap):
        """The sums within one glibc heap: all that it got from the kernel, mmapped
        blocks included."""
        whole = heap["in_use_bytes"] + heap["free_bytes"] + heap["metadata_bytes"]
        self.assertEqual(whole, heap["system_bytes"])
        self.assertLessEqual(heap["mmapped_bytes"], heap["system_bytes"])
        self.assertLessEqual(heap["mmapped_count"], heap["in_use_count"])
        parts = heap["tcache_bytes"] + heap["fastbin_bytes"] + heap["top_bytes"]
        self.assertLessEqual(parts, heap["free_bytes"])
        self.assertLessEqual(heap["free_resident_bytes"], heap["free_bytes"])
        self.assertLessEqual(heap["trimmable_bytes"], heap["free_resident_bytes"])
        self.assertGreaterEqual(heap["arenas"], 1)
        self.assertLessEqual(heap["arenas"], heap["arena_limit"])
        if self.target.allocator == "glibc":
            self.assertGreater(heap["in_use_count"], 0)

    def check_heap_in_account(self, heap, report):
        """The account's rows of malloc agree with the heap's own figures."""
        row = {one["id"]: one for one in report["categories"]}
        self.assertEqual(row["malloc.free"]["rss_bytes"], heap["free_resident_bytes"])
        self.assertLessEqual(row["malloc.in_use"]["rss_bytes"], heap["in_use_bytes"])
        self.assertEqual(row["malloc.unsplit"]["rss_bytes"], 0)

    @each_process
    def test_runtime_is_named(self, seen, report):
        kinds = [one["kind"] for one in report["runtimes"]]
        wanted = [self.target.runtime] if self.target.runtime else []
        self.assertEqual(kinds, wanted)
        for runtime in report["runtimes"]:
            self.assertTrue(runtime["version"], "no version")
            used, rss = runtime["heap_used_bytes"], runtime["heap_rss_bytes"]
            self.assertTrue(used is None or is_count(used), runtime)
            self.assertTrue(rss is None or rss <= report["rss_bytes"], runtime)

    @each_process
    def test_verdicts_hold_together(self, seen, report):
        verdicts = report["verdicts"]
        self.assertEqual(verdicts[-1]["id"], "unknown")
        self.assertEqual(verdicts[-1]["bytes"], report["unknown_bytes"])
        shown = [v for v in verdicts[:-1] if not v.get("minor")]
        order = [memwhy.CLASSES.index(v["class"]) for v in shown if v["part_of"] is None]
        self.assertEqual(order, sorted(order), "classes are out of order")
        charged = sum(v["bytes"] for v in verdicts
                      if v["part_of"] is None and v["class"] != "outside")
        self.assertLessEqual(charged, report["rss_bytes"])
        ids = {v["id"] for v in verdicts}
        for verdict in verdicts:
            self.assertIn(verdict["basis"], ("proven", "likely", "possible"))
            self.assertTrue(verdict["summary"])
            self.assertTrue(verdict["part_of"] is None or verdict["part_of"] in ids)

    @each_process
    def test_nothing_is_called_leaked(self, seen, report):
        """No target leaks or grows while it rests, but for a few blocks lost when it began."""
        wrong = [(v["id"], v["basis"], v["bytes"]) for v in report["verdicts"]
                 if v["class"] in ("leaked", "growing") and v["basis"] != "possible"
                 and not v.get("minor")]
        self.assertEqual(wrong, [])

    @each_process
    def test_pages_and_mappings_are_ordinary(self, seen, report):
        """None has a device, gives pages back lazily, or maps by the thousand; huge pages are
        made where a program asks, and these do not."""
        odd = {"lazy-free", "mapping-leak", "device-memory"}
        if not procfs.huge_pages_always():
            odd |= {"thp-bloat", "thp-stacks"}
        wrong = [(v["id"], v["bytes"]) for v in report["verdicts"] if v["id"] in odd]
        self.assertEqual(wrong, [])

    @each_process
    def test_no_content_is_shown(self, seen, report):
        text = memwhy.Run("report", seen.pid).out
        for secret in (SECRET_IN_ENVIRONMENT, *self.target.secrets):
            self.assertNotIn(secret, seen.run.out)
            self.assertNotIn(secret, text)

    def test_the_other_commands_answer(self):
        """maps, heap, pins and trim (which only predicts) on the same process.

        Exit 4, part unanswered, is right where the heap cannot be walked.
        """
        codes = {0} if self.target.allocator == "glibc" else {0, 4}
        for command in ("maps", "heap", "pins", "trim"):
            for pid in self.target.pids.values():
                with self.subTest(command):
                    run = memwhy.Run(command, pid, "--json")
                    self.assertIn(run.code, codes, run)
                    self.assertEqual(run.json()["schema"], f"memwhy.{command}/1")
                    if command == "trim":
                        self.assertIs(run.json()["applied"], False)
        self.assertTrue(self.target.running() and self.target.ping())


def for_target(name, **arguments):
    """The TestCase of one target."""
    return type(TARGETS[name].__name__, (ReportChecks, unittest.TestCase),
                {"target_name": name, "arguments": arguments,
                 "__module__": "__main__"})
