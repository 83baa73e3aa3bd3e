#!/usr/bin/env python3
# timeout: 900
"""Kept, not leaked: Icinga 2 after 3 x 50 parallel /v1/objects/hosts requests.

The whole incident once, in the order an engineer would go: load, report,
predict, apply, verify; the kernel's own sums are the other side. Then memory
is filled again, and this time glibc itself, called by gdb, is the judge of
the heap's figures and of the prediction. Prints TAP.
"""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]

import cores                                              # noqa: E402
import debugger                                           # noqa: E402
import memwhy                                             # noqa: E402
import procfs                                             # noqa: E402
import tap                                                # noqa: E402
from procfs import KIB, MIB                               # noqa: E402
from targets import TARGETS, Unavailable                  # noqa: E402

PREDICTION_ERROR_MAX = 0.002   # of what one command predicts and does
MOVING_ERROR_MAX = 0.01        # of figures of two moments: Icinga 2 runs on in between
LARGE = 128 * KIB              # glibc's mmap threshold before it adapts


def note(text):
    """Figures for whoever reads the log."""
    print(f"# {text}", file=sys.__stdout__, flush=True)


def verdict(report, name):
    return next((v for v in report["verdicts"] if v["id"] == name), None)


class Icinga2Incident(unittest.TestCase):
    """One target for all tests; setUpClass lives the incident."""

    @classmethod
    def setUpClass(cls):
        target = TARGETS["icinga2"]()
        try:
            target.__enter__()
        except Unavailable as error:
            raise unittest.SkipTest(str(error)) from error
        cls.addClassCleanup(target.__exit__, None, None, None)
        cls.target, cls.pid = target, target.pid
        cls.rested = memwhy.Moment(cls.pid)
        cls.rested_core = (cores.gcore(cls.pid, target.directory) if debugger.available()
                           else None)
        cls.answer_bytes = target.load(rounds=3, parallel=50)
        cls.live_the_incident()
        cls.second_opinion()

    @classmethod
    def live_the_incident(cls):
        cls.loaded = memwhy.Moment(cls.pid)
        cls.observed = cls.observe()
        if cls.rested_core:
            cls.grown = memwhy.Run("diff", cls.rested_core, cls.pid, "--json")
        cls.before_json = cls.target.write("before.json", cls.observed.run.out)
        cls.heap = memwhy.Run("heap", cls.pid, "--json")
        cls.pins = memwhy.Run("pins", cls.pid, "--json")
        cls.predicted = memwhy.Run("trim", cls.pid, "--json")
        cls.untrimmed = memwhy.Moment(cls.pid)
        cls.applied = memwhy.Run("trim", cls.pid, "--apply", "--json")
        cls.trimmed = memwhy.Moment(cls.pid)
        cls.verified = memwhy.Run("verify", cls.before_json, cls.pid)
        cls.serves_after_trim = cls.target.running() and cls.target.ping()
        note(f"one answer {cls.answer_bytes} bytes; requests repeated {cls.target.retries}")
        for name in ("rested", "loaded", "untrimmed", "trimmed"):
            moment = getattr(cls, name)
            note(f"{name}: RSS {moment.rss / MIB:.1f} MiB, Anonymous "
                 f"{moment.anonymous / MIB:.1f}, peak {moment.peak / MIB:.1f}")

    @classmethod
    def observe(cls):
        """A heap of this size is read under several stops. Where Icinga 2 was at work between two
        of them, as on a busy machine, its sums do not close: the report says likely, and an
        engineer looks again."""
        for _ in range(3):
            observed = memwhy.Observation(cls.pid)
            verdicts = observed.report["verdicts"]
            if verdicts and verdicts[0]["basis"] == "proven":
                break
            note("not all of one moment: looked again")
        return observed

    @classmethod
    def second_opinion(cls):
        cls.info = None
        if not debugger.available():
            return
        cls.target.load(rounds=1, parallel=50)
        cls.info = debugger.MallocInfo(cls.pid, cls.target.path("malloc_info.xml"))
        cls.refilled = memwhy.Run("report", cls.pid, "--json")
        cls.verified_full = memwhy.Run("verify", cls.before_json, cls.pid)
        cls.predicted_again = memwhy.Run("trim", cls.pid, "--json")
        before = procfs.smaps_sum(cls.pid, "Anonymous")
        cls.trim_result = debugger.malloc_trim(cls.pid)
        cls.glibc_drop = before - procfs.smaps_sum(cls.pid, "Anonymous")
        note(f"glibc's own malloc_trim(0): {cls.glibc_drop} bytes of {before}")

    def need_gdb(self):
        if self.info is None:
            self.skipTest("gdb is not installed")

    # The load did what it must, or nothing below means anything. -----------

    def test_load_raised_memory(self):
        grown = self.loaded.anonymous - self.rested.anonymous
        self.assertGreater(grown, 100 * MIB)
        self.assertGreater(self.loaded.anonymous, 2 * self.rested.anonymous)

    def test_growth_is_in_free_memory(self):
        """By the difference alone: what malloc holds free grew, what is in use did not."""
        self.need_gdb()
        self.assertEqual(self.grown.code, 0, self.grown)
        grown = self.grown.json()
        self.assertTrue(grown["same_process"])
        change = {row["id"]: row["delta_bytes"] for row in grown["rows"]
                  if row["what"] == "category"}
        note("grew since rest: " + ", ".join(
            f"{name} {change[name] / MIB:+.1f} MiB" for name in ("malloc.in_use", "malloc.free")))
        self.assertGreater(change["malloc.free"], 50 * MIB)
        self.assertLess(abs(change["malloc.in_use"]), change["malloc.free"] / 10)

    # The report ---------------------------------------------------------

    def test_first_verdict_is_kept(self):
        self.assertEqual(self.observed.run.code, 0, self.observed.run)
        first = self.observed.report["verdicts"][0]
        self.assertIn(first["id"], ("trimmable-free", "arena-proliferation"))
        self.assertEqual(first["class"], "kept")
        self.assertEqual(first["basis"], "proven")
        self.assertIsNone(first["part_of"])

    def test_what_is_kept_is_most_of_the_growth(self):
        report = self.observed.report
        kept = sum(v["bytes"] for v in report["verdicts"]
                   if v["class"] == "kept" and v["part_of"] is None)
        grown = self.loaded.anonymous - self.rested.anonymous
        self.assertGreater(kept, grown // 2)
        self.assertLessEqual(kept, report["allocators"][0]["free_resident_bytes"])

    def test_nothing_is_called_leaked(self):
        wrong = [(v["id"], v["basis"]) for v in self.observed.report["verdicts"]
                 if v["class"] in ("leaked", "growing") and v["basis"] != "possible"]
        self.assertEqual(wrong, [])

    def test_threshold_is_named_as_cause(self):
        """An answer of megabytes was mmapped once and freed: glibc's rule then
        raises the threshold to at least its size, and says so in mp_."""
        report = self.observed.report
        parameters = report["allocators"][0]["parameters"]
        self.assertFalse(parameters["no_dyn_threshold"])
        self.assertGreaterEqual(parameters["mmap_threshold"], self.answer_bytes)
        self.assertEqual(parameters["trim_threshold"], 2 * parameters["mmap_threshold"])
        large = sum(row["free_count"] for row in self.heap.json()["sizes"]
                    if row["size_bytes"] >= LARGE)
        self.assertGreater(large, 0)
        cause = verdict(report, "adaptive-mmap-threshold")
        self.assertIsNotNone(cause, "not named")
        self.assertIsNotNone(cause["part_of"])

    def test_pin_is_named_where_one_holds(self):
        report = self.observed.report
        pins = self.pins.json()["pins"]
        gains = [pin["would_release_bytes"] for pin in pins]
        self.assertEqual(gains, sorted(gains, reverse=True))
        cause = verdict(report, "heap-top-pinned")
        if gains and gains[0] >= report["rss_bytes"] // 5:
            self.assertIsNotNone(cause, f"a pin holds {gains[0]} bytes")
        if cause:
            self.assertIsNotNone(cause["part_of"])
            self.assertTrue(pins, "the cause is named and pins shows none")

    def test_remedy_carries_the_prediction(self):
        report = self.observed.report
        gains = [(r["gain_low_bytes"], r["gain_high_bytes"])
                 for v in report["verdicts"] if v["class"] == "kept"
                 for r in v["remedies"] if "malloc_trim" in r["action"]]
        self.assertTrue(gains, "no remedy runs malloc_trim")
        drop = self.untrimmed.anonymous - self.trimmed.anonymous
        self.assertTrue(any(low <= drop * 1.01 and high >= drop * 0.99 for low, high in gains),
                        f"{gains} does not hold {drop}")

    def test_peak_is_the_kernels(self):
        self.assertAlmostEqual(self.observed.report["peak_rss_bytes"], self.loaded.peak,
                               delta=MIB)

    # Trim and verify ------------------------------------------------------

    def assert_predicted(self, predicted, actual, error_max=PREDICTION_ERROR_MAX):
        self.assertGreater(actual, 50 * MIB)
        error = abs(predicted - actual) / actual
        note(f"predicted {predicted}, actual {actual}: off by {error:.5%}")
        self.assertLessEqual(error, error_max)

    def test_prediction_is_the_kernels_drop(self):
        self.assertEqual(self.predicted.code, 0, self.predicted)
        answer = self.predicted.json()
        self.assertEqual(answer["schema"], "memwhy.trim/1")
        self.assertIs(answer["applied"], False)
        self.assert_predicted(answer["predicted_bytes"],
                              self.untrimmed.anonymous - self.trimmed.anonymous,
                              MOVING_ERROR_MAX)

    def test_report_and_trim_predict_the_same(self):
        said = self.observed.report["allocators"][0]["trimmable_bytes"]
        self.assertAlmostEqual(said, self.predicted.json()["predicted_bytes"],
                               delta=said * MOVING_ERROR_MAX)

    def test_predicting_changes_nothing(self):
        self.assertAlmostEqual(self.loaded.anonymous, self.untrimmed.anonymous,
                               delta=self.loaded.anonymous * MOVING_ERROR_MAX)

    def test_apply_reports_what_happened(self):
        self.assertEqual(self.applied.code, 0, self.applied)
        answer = self.applied.json()
        self.assertIs(answer["applied"], True)
        drop = answer["anon_before_bytes"] - answer["anon_after_bytes"]
        self.assertEqual(answer["actual_bytes"], drop)
        self.assert_predicted(answer["predicted_bytes"], drop)
        slack = MOVING_ERROR_MAX * drop
        self.assertAlmostEqual(answer["anon_before_bytes"], self.untrimmed.anonymous, delta=slack)
        self.assertAlmostEqual(answer["anon_after_bytes"], self.trimmed.anonymous, delta=slack)

    def test_target_goes_on(self):
        self.assertTrue(self.serves_after_trim)
        self.assertEqual(self.trimmed.tracer, 0)
        self.assertFalse(set(self.trimmed.thread_states) & set("tT"))
        self.assertEqual(self.trimmed.children, self.rested.children)
        self.assertEqual(self.trimmed.threads, self.loaded.threads)

    def test_verify_says_met(self):
        self.assertEqual(self.verified.code, 0, self.verified)

    # glibc as the judge -----------------------------------------------------

    def test_heap_is_what_malloc_info_says(self):
        self.need_gdb()
        heap = self.refilled.json()["allocators"][0]
        self.assertEqual(heap["arenas"], self.info.arenas)
        self.assertAlmostEqual(heap["system_bytes"], self.info.system, delta=MIB)
        self.assertAlmostEqual(heap["mmapped_bytes"], self.info.mmapped, delta=MIB)
        # glibc counts a tcache's chunks as used.
        free = heap["free_bytes"] - heap["tcache_bytes"]
        self.assertAlmostEqual(free, self.info.free, delta=MIB)

    def test_prediction_is_what_glibc_releases(self):
        self.need_gdb()
        self.assertEqual(self.trim_result, 1)
        self.assert_predicted(self.predicted_again.json()["predicted_bytes"], self.glibc_drop)

    def test_verify_sees_that_memory_is_back(self):
        """After the second load the gain is gone, and verify must say so."""
        self.need_gdb()
        self.assertNotEqual(self.verified_full.code, 0, self.verified_full)
        self.assertIn(self.verified_full.code, (1, 4), self.verified_full)


if __name__ == "__main__":
    memwhy.require()
    tap.main()
