"""The runner itself: what it must never take for success, and its closing line.

Each test writes a small tree with test scripts and runs tests/run on it.
"""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import tap

SOURCE = Path(os.environ["MEMWHY_SOURCE"])
GOOD = "echo 'ok 1 - a'; echo 'ok 2 - b'; echo 1..2"


class Runner(unittest.TestCase):
    def run_tree(self, *scripts, arguments=()):
        """Runs the shell scripts as tests/cli/test_<n>.sh; (exit code, output, last line)."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "tests/cli"
            folder.mkdir(parents=True)
            for number, script in enumerate(scripts):
                (folder / f"test_{number}.sh").write_text(script + "\n")
            done = subprocess.run(
                [sys.executable, SOURCE / "tests/run", "--no-build", "--root", name, *arguments],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout, done.stdout.splitlines()[-1]

    def assert_run(self, scripts, code, last, *texts, arguments=()):
        got_code, output, got_last = self.run_tree(*scripts, arguments=arguments)
        self.assertEqual((got_code, got_last), (code, last), output)
        for text in texts:
            self.assertIn(text, output)

    def test_passes(self):
        self.assert_run([GOOD, GOOD], 0, "4 passed, 0 failed, 0 skipped")

    def test_plan_may_come_first(self):
        self.assert_run(["echo 1..1; echo 'ok 1 - a'"], 0, "1 passed, 0 failed, 0 skipped")

    def test_failure_shows_its_diagnostics(self):
        script = "echo 'ok 1 - a'; echo 'not ok 2 - b'; echo '# 3 is not 4'; echo 1..2; exit 1"
        self.assert_run([GOOD, script], 1, "3 passed, 1 failed, 0 skipped",
                        "cli/test_1.sh: b", "# 3 is not 4")

    def test_summary_is_there_once(self):
        _, output, _ = self.run_tree(GOOD)
        self.assertEqual(len(re.findall(r"^\d+ passed, \d+ failed, \d+ skipped$", output, re.M)), 1)

    def test_exit_code_counts(self):
        self.assert_run([GOOD + "; exit 3"], 1, "2 passed, 1 failed, 0 skipped",
                        "exit code 3 though every test passed")

    def test_crash_counts(self):
        self.assert_run(["echo 'ok 1 - a'; kill -SEGV $$"], 1, "1 passed, 1 failed, 0 skipped",
                        "killed by SIGSEGV")

    def test_no_plan_counts(self):
        self.assert_run(["echo 'ok 1 - a'"], 1, "1 passed, 1 failed, 0 skipped", "no plan")

    def test_short_of_the_plan_counts(self):
        self.assert_run(["echo 1..3; echo 'ok 1 - a'"], 1, "1 passed, 1 failed, 0 skipped",
                        "planned 3, ran 1")

    def test_empty_plan_counts(self):
        self.assert_run(["echo 1..0"], 1, "0 passed, 1 failed, 0 skipped", "ran no test")

    def test_bail_out_counts(self):
        self.assert_run(["echo 'ok 1'; echo 1..1; echo 'Bail out! no disk'"], 1,
                        "1 passed, 1 failed, 0 skipped", "Bail out! no disk")

    def test_nothing_ran(self):
        self.assert_run([], 1, "0 passed, 0 failed, 0 skipped", "no test ran")

    def test_only_skips_is_nothing(self):
        self.assert_run(["echo '1..0 # SKIP no gdb'"], 1, "0 passed, 0 failed, 1 skipped",
                        "no test ran")

    def test_skips_are_listed_by_reason(self):
        script = "echo 'ok 1 - a # SKIP no gdb'; echo 'ok 2 - b # SKIP no gdb'; echo 1..2"
        self.assert_run([GOOD, script], 0, "2 passed, 0 failed, 2 skipped", "   2  no gdb")

    def test_skip_of_cmocka(self):
        script = "echo 1..1; echo 'skip: needs root'; echo 'not ok 1 # SKIP b'"
        self.assert_run([GOOD, script], 0, "2 passed, 0 failed, 1 skipped", "   1  needs root")

    def test_timeout_counts(self):
        started = time.monotonic()
        self.assert_run([GOOD, "echo 'ok 1 - a'; sleep 60"], 1, "3 passed, 1 failed, 0 skipped",
                        "over its time of 1 s", arguments=("--timeout", "1"))
        self.assertLess(time.monotonic() - started, 20)

    def test_timeout_of_the_file(self):
        self.assert_run([GOOD, "# timeout: 1\nsleep 60"], 1, "2 passed, 1 failed, 0 skipped",
                        "over its time of 1 s")

    def test_flood_counts(self):
        self.assert_run([GOOD, "yes"], 1, "2 passed, 1 failed, 0 skipped", "printed over 8 MiB")

    def test_no_standard_input(self):
        self.assert_run(["cat; echo 'ok 1'; echo 1..1"], 0, "1 passed, 0 failed, 0 skipped")

    def test_children_left_behind_are_killed(self):
        with tempfile.TemporaryDirectory() as name:
            script = f"sleep 300 & echo $! >{name}/pid; {GOOD}"
            self.assert_run([script], 0, "2 passed, 0 failed, 0 skipped")
            pid = Path(name, "pid").read_text().strip()
            for _ in range(100):  # until its new parent has reaped it
                state = Path(f"/proc/{pid}/stat")
                if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    return
                time.sleep(0.05)
            self.fail(f"{pid} still runs")

    def test_filter(self):
        self.assert_run([GOOD, "echo 1..1; echo 'not ok 1'"], 0, "2 passed, 0 failed, 0 skipped",
                        arguments=("cli/test_0",))


class Tap(unittest.TestCase):
    """tests/support/tap.py: unittest to TAP."""

    SCRIPT = """
import sys, unittest
sys.path.insert(0, {support!r})
import tap
class T(unittest.TestCase):
    def test_good(self): print("noise")
    def test_bad(self): self.assertEqual(1, 2)
    def test_error(self): raise ValueError("x")
    @unittest.skip("no gdb")
    def test_skip(self): pass
    def test_sub(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertLess(n, 2)
class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError("no class")
    def test_never(self): pass
tap.main()
"""

    def test_lines(self):
        script = self.SCRIPT.format(support=str(SOURCE / "tests/support"))
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line.split(" ")[:2] for line in lines[:-1]],
                         [["not", "ok"], ["not", "ok"], ["not", "ok"],
                          ["ok", "4"], ["ok", "5"], ["not", "ok"]], done.stdout)
        self.assertEqual(lines[-1], "1..6")
        self.assertRegex(done.stdout, r"(?m)^ok 5 - test_skip .* # SKIP no gdb$")
        self.assertIn("# AssertionError: 1 != 2", done.stdout)


if __name__ == "__main__":
    tap.main()
