#!/usr/bin/env python3
"""Where output goes and what it looks like: colours, widths, pipes that break, full disks, signals,
closed descriptors."""
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import command
import tap
from command import MEMWHY, Sleeper, run, run_on_terminal

ESCAPE = "\x1b["


class Look(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = Sleeper().__enter__()
        cls.addClassCleanup(cls.target.__exit__)
        cls.pid = cls.target.pid

    def test_colour_on_a_terminal_only(self):
        self.assertIn(ESCAPE, run_on_terminal(self.pid).out)
        self.assertNotIn(ESCAPE, run(self.pid).out)
        self.assertNotIn(ESCAPE, run_on_terminal(self.pid, env={"NO_COLOR": "1"}).out)
        self.assertIn(ESCAPE, run_on_terminal(self.pid, env={"NO_COLOR": ""}).out)
        self.assertNotIn(ESCAPE, run_on_terminal(self.pid, "--no-color").out)
        self.assertNotIn(ESCAPE, run_on_terminal(self.pid, env={"TERM": "dumb"}).out)
        self.assertNotIn(ESCAPE, run_on_terminal(self.pid, "--json").out)

    def test_width(self):
        for columns, width in ((40, 80), (90, 90), (300, 100), (0, 100), (-5, 100)):
            out = run(self.pid, env={"COLUMNS": str(columns)}).out
            longest = max(len(line) for line in out.splitlines())
            self.assertLessEqual(longest, width, f"COLUMNS={columns}\n{out}")
            self.assertGreater(longest, width - 30)

    def test_one_unit_a_screen(self):
        out = run(self.pid).out.split("WHERE", maxsplit=1)[0]
        found = set(re.findall(r"\b(MiB|GiB)\b", out))
        self.assertEqual(len(found), 1, out)

    def test_where_sums_to_rss(self):
        out = run(self.pid).out
        rss = float(re.search(r"^RSS ([\d,.]+) ", out, re.M).group(1).replace(",", ""))
        table = out.split("\nWHERE", 1)[1].split("\nNEXT", 1)[0]
        rows = re.findall(r"(?:malloc in use|malloc free|malloc metadata|malloc, not split|"
                          r"\w+ heap|runtime code\+meta|thread stacks|file maps|shared memory|"
                          r"device memory|mapped twice|anonymous, other|unknown) +([\d,.]+) ",
                          table)
        self.assertGreaterEqual(len(rows), 3, table)
        self.assertAlmostEqual(sum(float(row.replace(",", "")) for row in rows), rss, places=6)

    def test_reports_hold_no_arguments(self):
        for words in ([], ["--json"], ["--markdown"], ["--all"]):
            out = run(self.pid, *words).out
            self.assertNotIn("sys.stdin.read", out)
            self.assertNotIn("kept = [", out)


class HostileNames(unittest.TestCase):
    """What a target may name itself, its program, its files: nothing of it reaches a terminal."""

    # what moves a terminal, in C0, C1, as UTF-8 and not, one long word, what Markdown reads
    NAME = b"e\x1b[31m\x07\x9b\xc2\x9b\xff\x7f\r\n|`<b>" + b"\x01" * 60
    CODE = """import ctypes, mmap, os, sys
descriptor = os.open(os.path.join(os.fsencode({folder!r}), {name!r}), os.O_RDWR | os.O_CREAT)
os.write(descriptor, bytes(24 << 20))
os.fsync(descriptor)
mapped = mmap.mmap(descriptor, 24 << 20)
total = sum(mapped[at] for at in range(0, 24 << 20, 4096))
ctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)
print('ready', flush=True)
sys.stdin.read()
"""

    def assert_harmless(self, text, words):
        bad = {char for char in text
               if (ord(char) < 32 and char != "\n") or 0x7f <= ord(char) < 0xa0}
        self.assertEqual(bad, set(), words)

    def test_every_command(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(os.fsencode(folder), b"p" + self.NAME)
            shutil.copy(sys.executable, program)
            code = self.CODE.format(folder=folder, name=self.NAME)
            with Sleeper(code, program=program) as target:
                for words in (["report"], ["report", "--all"], ["report", "--markdown"],
                              ["report", "--json"], ["maps"], ["maps", "--unknown"],
                              ["maps", "--json"], ["heap"], ["heap", "--json"], ["pins"],
                              ["trim"], ["doctor"], ["doctor", "--json"]):
                    done = run(*words, target.pid, env={"COLUMNS": "80"})
                    self.assertEqual(done.code, 0, done)
                    self.assert_harmless(done.out + done.err, words)
                    if words[0] != "maps" and words[-1] not in ("--json", "--markdown"):
                        longest = max(done.out.splitlines(), key=len)
                        self.assertLessEqual(len(longest), 80, f"{words}: {longest}")
                    if "--markdown" in words:
                        self.assertNotIn(folder, done.out)
                for words in (["-n", "0"], ["-n", "0", "--json"]):
                    self.assert_harmless(run(*words).out, words)
                for words in ([], ["maps"], ["heap"], ["pins"], ["trim"]):
                    done = run_on_terminal(*words, target.pid, env={"NO_COLOR": "1"})
                    self.assert_harmless(done.out, words)

    def test_of_files(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(os.fsencode(folder), self.NAME)
            shutil.copy(os.path.join(command.SMAPS, "linux-6.12.txt"), name)
            for words in ([], ["maps"], ["trim"], ["heap"], ["pins"], ["report", "--json"],
                          ["report", "--markdown"]):
                done = run(*words, os.fsdecode(name), env={"COLUMNS": "80"})
                self.assert_harmless(done.out + done.err, words)
            for words in (["verify", name, "1"], [name + b"x"], ["doctor", name], [name, name],
                          ["--" + os.fsdecode(name)], ["1", "--fail-if", name],
                          ["1", "--count", name], ["1", "--max-pause", name]):
                done = run(*map(os.fsdecode, words))
                self.assertIn(done.code, (2, 3), words)
                self.assert_harmless(done.out + done.err, words)


    def test_next_commands_can_be_pasted(self):
        """A core may be named after the process that died: $(reboot) must stay a name."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a $(touch pwned) b", "it's; reboot", "`reboot`", "a|b>c", "x" * 70):
                path = os.path.join(folder, name)
                shutil.copy(os.path.join(command.SMAPS, "swapped.txt"), path)
                out = run(path, env={"COLUMNS": "1000"}).out
                lines = re.findall(r"^(?:NEXT)? +(memwhy .*?)(?:   |$)", out, re.M)
                self.assertGreaterEqual(len(lines), 2, out)
                for line in lines:
                    words = shlex.split(line)
                    self.assertEqual([word for word in words if word == path], [path], line)
                    self.assertLessEqual(len(words), 4, line)
                os.unlink(path)
            for name in ("$(reboot)", "a;reboot", "a b"):
                self.assertNotIn(name + ")", run(name, cwd=folder).err)
                os.mkdir(os.path.join(folder, name))
                self.assertNotIn(name + "/CORE", run(name, cwd=folder).err)


class Endings(unittest.TestCase):
    def test_reader_that_goes(self):
        """Quiet, with the exit code of the answer, however little was read."""
        with Sleeper() as target:
            for words in (["heap", "--list-blocks"], ["maps"], ["report", "--json"], ["report"],
                          ["heap", "--json"]):
                for wanted in (0, 10):
                    with subprocess.Popen([MEMWHY, *words, str(target.pid)],
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
                        child.stdout.read(wanted)
                        child.stdout.close()
                        err = child.stderr.read()
                        self.assertEqual((child.wait(30), err), (0, b""), words)

    def test_full_disk(self):
        with Sleeper() as target, open("/dev/full", "w", encoding="utf-8") as full:
            for words in (["report"], ["report", "--json"], ["maps"], ["--help"], ["--version"]):
                done = subprocess.run([MEMWHY, *words, str(target.pid)], stdout=full,
                                      stderr=subprocess.PIPE, check=False, timeout=60, text=True)
                self.assertEqual(done.returncode, 4, words)
                self.assertIn("No space left", done.stderr)

    def test_closed_descriptors(self):
        with Sleeper() as target:
            for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
                done = subprocess.run(["/bin/sh", "-c", f'exec "$0" "$@" {closed}', MEMWHY,
                                       "report", str(target.pid)], stdin=subprocess.DEVNULL,
                                      capture_output=True, check=False, timeout=60)
                self.assertEqual(done.returncode, 0, closed)
                self.assertEqual(done.stderr, b"", closed)

    def test_signals(self):
        """Waiting for an input that never comes, one signal ends it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([MEMWHY, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as child:
                time.sleep(0.2)
                started = time.monotonic()
                child.send_signal(number)
                self.assertEqual(child.wait(20), 4)
                self.assertLess(time.monotonic() - started, 5)
                self.assertEqual(child.stdout.read(), b"")

    def test_results_and_messages_do_not_mix(self):
        done = run("/nonexistent")
        self.assertEqual(done.out, "")
        with Sleeper() as target:
            self.assertEqual(run(target.pid).err, "")

    def test_no_progress_without_a_terminal(self):
        with Sleeper() as target:
            self.assertNotIn("\r", run(target.pid).err)


if __name__ == "__main__":
    tap.main()
