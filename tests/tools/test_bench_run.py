"""bench/run: a wrong answer or a broken limit is never a good run; bench/measure's figures."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tap

SOURCE = Path(os.environ["MEMWHY_SOURCE"])
GOOD = 'import benchlib\nbenchlib.check("sum", True)\n'


class Benches(unittest.TestCase):
    def run_benches(self, **benches):
        with tempfile.TemporaryDirectory() as name:
            for bench, text in benches.items():
                Path(name, f"bench_{bench}.py").write_text(text)
            done = subprocess.run([sys.executable, SOURCE / "bench/run", "--folder", name],
                                  stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout

    def assert_problem(self, text, bench):
        code, output = self.run_benches(a=bench)
        self.assertEqual(code, 1, output)
        self.assertIn(text, output)

    def test_good(self):
        row = 'benchlib.row("wall", "ms", 2.0, {"cat": 5.0}, limit=3)\n'
        code, output = self.run_benches(a=GOOD + row, b=GOOD)
        self.assertEqual(code, 0, output)
        self.assertIn("2.50x", output)
        self.assertIn("within 3.00 ms", output)
        self.assertTrue(output.endswith("2 benches, 0 problems\n"))

    def test_wrong_answer(self):
        self.assert_problem("wrong: sum", GOOD + 'benchlib.check("sum", False, 7)\n')

    def test_over_its_limit(self):
        self.assert_problem("3.50 ms is over 3.00 ms",
                            GOOD + 'benchlib.row("wall", "ms", 3.5, limit=3)\n')

    def test_no_answer_checked(self):
        self.assert_problem("checks no answer", 'import benchlib\nbenchlib.row("a", "ms", 1)\n')

    def test_bench_that_fails(self):
        self.assert_problem("exit code 1", GOOD + "raise SystemExit(1)\n")

    def test_nothing_ran(self):
        code, output = self.run_benches()
        self.assertEqual(code, 1)
        self.assertIn("no bench ran", output)


class Measure(unittest.TestCase):
    """bench/measure must not show its caller's size: that is why it exists."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.program = str(Path(cls.folder.name, "measure"))
        subprocess.run(["gcc", "-O1", "-D_GNU_SOURCE", "-o", cls.program,
                        SOURCE / "bench/measure.c"], check=True)

    def measure(self, *command):
        text = subprocess.run([self.program, "3", *command], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        return [[int(word) for word in line.split()] for line in text.splitlines()[1:]]

    def test_time_and_code(self):
        rows = self.measure("sh", "-c", "sleep 0.05; exit 7")
        self.assertEqual(len(rows), 3)
        for wall_ns, _, _, _, code in rows:
            self.assertGreaterEqual(wall_ns, 50_000_000)
            self.assertLess(wall_ns, 5_000_000_000)
            self.assertEqual(code, 7)

    def test_peak_is_the_childs_own(self):
        ballast = b"x" * (100 << 20)
        peak_kib = max(row[3] for row in self.measure("true"))
        self.assertLess(peak_kib, 8 << 10, len(ballast))
        script = "a = b'x' * (50 << 20)"
        self.assertGreater(min(row[3] for row in self.measure(sys.executable, "-c", script)),
                           50 << 10)

    def test_command_that_is_not_there(self):
        self.assertEqual({row[4] for row in self.measure("/nonexistent")}, {127})


if __name__ == "__main__":
    tap.main()
