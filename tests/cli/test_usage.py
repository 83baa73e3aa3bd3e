#!/usr/bin/env python3
"""Usage errors, exit codes, gates, damaged inputs."""
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import command
import tap
from command import Sleeper, run

PLAIN_SMAPS = b"""00400000-00402000 rw-p 00000000 00:00 0 [heap]
Size:                  8 kB
Rss:                   8 kB
Pss:                   8 kB
Anonymous:             8 kB
Swap:                  0 kB
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
Size:                132 kB
Rss:                  12 kB
Pss:                  12 kB
Anonymous:            12 kB
Swap:                  0 kB
"""


def run_as_nobody(*words):
    """memwhy as another user, from a copy: the build may lie where that user cannot go."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(command.MEMWHY, os.path.join(folder, "memwhy"))
        os.chmod(program, 0o755)
        return run(*words, program=program, user=65534, group=65534, extra_groups=[], cwd="/")


class Usage(unittest.TestCase):
    CASES = (
        ["--bogus"], ["report"], ["heap"], ["maps"], ["pins"], ["trim"], ["verify"],
        ["verify", "a"], ["verify", "a", "b", "c"], ["report", "1", "2"], ["frobnicate", "1"],
        ["doctor", "x"], ["doctor", "-1"], ["doctor", "0"], ["heap", "1", "--unknown"],
        ["report", "1", "--apply"], ["maps", "1", "--fail-if", "kept>0"], ["--unknown"],
        ["1", "--max-pause"], ["1", "--max-pause", "soon"], ["1", "--max-pause", "0ms"],
        ["1", "--fail-if", "kept"], ["1", "--fail-if", "kpet>0"], ["1", "--fail-if"],
        ["1", "--json", "--markdown"], ["heap", "1", "--json", "--list-blocks"],
        ["trim", "1", "--json", "--pages"], ["trim", "1", "--apply", "--pages"], ["-n"],
        ["-n", "x"], ["-n", "-1"], ["heap", "1", "--json=yes"], ["", ""],
    )

    def test_errors(self):
        for words in self.CASES:
            with self.subTest(" ".join(words)):
                done = run(*words)
                self.assertEqual((done.code, done.out), (2, ""), done)
                self.assertRegex(done.err, r"^memwhy: [^A-Z\n].*[^.\n]\n(hint: .+\n)?$")

    def test_hint_names_the_closest_command(self):
        for word, meant in (("reprot", "report"), ("heaps", "heap"), ("veryfi", "verify"),
                            ("map", "maps"), ("docter", "doctor")):
            done = run(word, "1")
            self.assertEqual(done.err, f"memwhy: '{word}' is no command\n"
                                       f"hint: did you mean: memwhy {meant}\n")
        self.assertIn("'frobnicate' is no command\nhint: memwhy --help", run("frobnicate", "1").err)
        self.assertIn("'2' is one argument too many", run("report", "1", "2").err)

    def test_hint_names_the_command(self):
        self.assertIn("hint: memwhy heap --help\n", run("heap").err)


class Targets(unittest.TestCase):
    """Exit code 3 and one line that says what was not accessible."""

    def assert_refused(self, done, name):
        with self.subTest(name):
            self.assertEqual((done.code, done.out), (3, ""), done)
            self.assertRegex(done.err, r"^memwhy: .+\n(hint: .+\n)?$")

    def test_what_is_not_there(self):
        for name in command.COMMANDS:
            if name in ("verify", "doctor"):
                continue
            more = {"refs": ["0x1000"], "diff": ["1"], "collect": ["-o", "/nonexistent/x"]}.get(name, [])
            self.assert_refused(run(name, "/nonexistent/file", *more), f"{name} file")
            self.assert_refused(run(name, "99999999", *more), f"{name} pid")
        self.assert_refused(run("doctor", "99999999"), "doctor pid")
        self.assert_refused(run("verify", "/nonexistent", "1"), "verify")

    def test_what_is_no_target(self):
        with tempfile.TemporaryDirectory() as folder:
            contents = {"empty": b"", "text": b"hello\n", "zeros": bytes(4096), "json": b"{}",
                        "elf": b"\x7fELF\2\1\1" + bytes(57), "short": b"\x7fELF",
                        "zst": b"\x28\xb5\x2f\xfd" + bytes(20), "binary": os.urandom(5000)}
            for name, content in contents.items():
                path = os.path.join(folder, name)
                with open(path, "wb") as file:
                    file.write(content)
                self.assert_refused(run(path), name)
                self.assert_refused(run("-", stdin=content), f"{name} on standard input")
            self.assert_refused(run(folder), "a directory")
            with open(os.path.join(folder, "no"), "wb") as file:
                file.write(b'{"schema": "memwhy.heap/1"}')
            self.assert_refused(run("verify", file.name, file.name), "verify: another schema")

    def test_a_process_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        with Sleeper() as target:
            done = run_as_nobody(target.pid)
            self.assertEqual(done.code, 3, done)
            self.assertIn("hint: ", done.err)

    def test_targets_that_are_nearly_right(self):
        for target, said in (("2147483648", "process 2147483648"), ("", "the target is empty"),
                             ("3f2a9c", "12 digits or more"), ("3F2A9C", "12 digits or more")):
            done = run("report", target)
            self.assertEqual(done.code, 3, done)
            self.assertIn(said, done.err)

    def test_exit_codes_of_a_command(self):
        for name in ("heap", "pins", "trim"):
            self.assertNotIn("--fail-if", run("help", name).out)
        self.assertIn("1 a --fail-if holds", run("help", "report").out)


class Groups(unittest.TestCase):
    """A cgroup whose processes may not all be read."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        # A tree that another user can read.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.chmod(self.root, 0o755)
        os.mkdir(os.path.join(self.root, "x"))

    def ask(self, pids, *words):
        with open(os.path.join(self.root, "x", "cgroup.procs"), "w", encoding="ascii") as file:
            file.write("".join(f"{pid}\n" for pid in pids))
        return run_as_nobody("cgroup:/x", "--cgroup-root", self.root, *words)

    def test_none_may_be_read(self):
        with Sleeper() as one, Sleeper() as two:
            done = self.ask([one.pid, two.pid], "--json")
            group = done.json()
            self.assertEqual(done.code, 4, done)
            self.assertEqual((group["process_count"], group["read_count"]), (2, 0))
            self.assertEqual((group["worst"], group["pss_bytes"]), (None, None))
            for row in group["processes"]:
                self.assertFalse(row["readable"])
                self.assertIsNone(row["pss_bytes"])
                self.assertGreater(row["rss_bytes"], 1 << 20)
            self.assertIn("2 of 2 processes may not be read", group["partial"]["text"])
            self.assertIn("hint: memwhy doctor ", done.err)
            screen = self.ask([one.pid, two.pid])
            self.assertEqual(screen.code, 4, screen)
            for part in ("PARTIAL", "may not be read", "~", "memwhy doctor "):
                self.assertIn(part, screen.out)
            self.assertNotIn("WORST", screen.out)

    def test_some_may_be_read(self):
        with Sleeper() as denied, subprocess.Popen(
                ["sleep", "600"], user=65534, group=65534, extra_groups=[], cwd="/") as own:
            try:
                done = self.ask([denied.pid, own.pid], "--json", "--no-heap")
            finally:
                own.kill()
            group = done.json()
            self.assertEqual(done.code, 4, done)
            self.assertEqual([(row["pid"], row["readable"]) for row in group["processes"]],
                             [(own.pid, True), (denied.pid, False)])
            self.assertEqual(group["worst"]["target"]["pid"], own.pid)
            self.assertEqual(group["rss_bytes"], group["processes"][0]["rss_bytes"])


class Doctor(unittest.TestCase):
    """It promises what the report then does."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")

    def test_of_a_process_that_is_denied(self):
        with Sleeper() as target:
            done = run_as_nobody("doctor", target.pid)
            self.assertEqual(done.code, 4, done)
            self.assertIn("exit code 3", done.out)
            self.assertNotIn("level of mappings", done.out)

    def test_as_a_user(self):
        done = run_as_nobody("doctor")
        self.assertRegex(done.out, r"other users +no ")
        self.assertNotIn("Everything that memwhy needs works.", done.out)
        checks = {check["id"]: check for check in run_as_nobody("doctor", "--json").json()["checks"]}
        self.assertFalse(checks["other users"]["allowed"])
        self.assertIn("CAP_SYS_PTRACE", checks["other users"]["blocked_by"][0]["why"])


class ExitCodes(unittest.TestCase):
    def test_smaps_text(self):
        for words in (["-"], ["report", "-"], ["maps", "-"], ["-", "--json"], ["-", "--markdown"],
                      ["maps", "-", "--json"]):
            done = run(*words, stdin=PLAIN_SMAPS)
            self.assertEqual((done.code, done.err), (0, ""), done)
        report = run("-", "--json", stdin=PLAIN_SMAPS).json()
        self.assertEqual((report["rss_bytes"], report["target"]["kind"]), (20480, "smaps"))

    def test_gates(self):
        cases = {"rss>1KiB": 1, "rss>=20480": 1, "rss==20480": 1, "rss<20480": 0, "rss>1GiB": 0,
                 "swap>0": 0, "unknown>200%": 0, "kept>0": 4, "leaked==0": 4, "trimmable<1": 4}
        for text, code in cases.items():
            with self.subTest(text):
                done = run("-", "--fail-if", text, stdin=PLAIN_SMAPS)
                self.assertEqual(done.code, code, done)
                self.assertIn("RSS", done.out)  # the report is printed all the same
                self.assertEqual(bool(done.err), code != 0, done)

    def test_one_of_several_gates(self):
        done = run("-", "--fail-if", "rss>1GiB", "--fail-if", "kept>0", "--fail-if", "rss>0",
                   stdin=PLAIN_SMAPS)
        self.assertEqual(done.code, 1, done)

    def test_gates_of_a_live_process(self):
        with Sleeper() as target:
            self.assertEqual(run(target.pid, "--fail-if", "rss>1MiB").code, 1)
            self.assertEqual(run(target.pid, "--fail-if", "leaked>1TiB").code, 0)
            done = run(target.pid, "--no-heap", "--fail-if", "kept>=0")
            self.assertEqual(done.code, 4, done)

    def test_every_command_on_a_live_process(self):
        with Sleeper() as target:
            for words in (["report"], ["report", "--json"], ["report", "--markdown"], ["maps"],
                          ["maps", "--unknown"], ["maps", "--json"], ["heap"], ["heap", "--json"],
                          ["heap", "--list-blocks"], ["pins"], ["pins", "--json"], ["trim"],
                          ["trim", "--json"], ["trim", "--pages"], ["doctor"],
                          ["doctor", "--json"]):
                done = run(*words, target.pid)
                with self.subTest(" ".join(words)):
                    self.assertEqual((done.code, done.err), (0, ""), done)
                    if "--json" in words:
                        self.assertEqual(done.json()["schema"], f"memwhy.{words[0]}/1")

    def test_trim_without_a_heap_is_partial(self):
        done = run("trim", "-", "--json", stdin=PLAIN_SMAPS)
        self.assertEqual(done.code, 4, done)
        self.assertIsNone(done.json()["predicted_bytes"])

    def test_a_heap_that_is_not_there_is_partial(self):
        for name in ("heap", "pins"):
            done = run(name, "-", "--json", stdin=PLAIN_SMAPS)
            self.assertEqual(done.code, 4, done)
            self.assertIn("has no memory", done.json()["partial"]["text"])
            done = run(name, "-", stdin=PLAIN_SMAPS)
            self.assertEqual(done.code, 4, done)
            self.assertIn("PARTIAL", done.out)

    def test_a_heap_that_cannot_be_walked_is_partial(self):
        """jemalloc is recognised; nothing is said of its inside."""
        compiler = shutil.which("gcc")
        if not compiler:
            self.skipTest("gcc is not installed")
        code = ("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                "int main(void) {\n"
                "    for (int i = 0; i < 40000; i++) memset(malloc(400), 1, 400);\n"
                "    puts(\"ready\"); fflush(stdout); return getchar(); }\n")
        # What memwhy knows jemalloc by: the name of its library, what it exports, how it maps.
        other = ("#define _GNU_SOURCE\n#include <string.h>\n#include <sys/mman.h>\n"
                 "static char *at, *end;\n"
                 "int mallctl(void) { return 0; }\n"
                 "void *malloc(size_t n) {\n"
                 "    n = (n + 31) & ~(size_t)15;\n"
                 "    if ((size_t)(end - at) < n) {\n"
                 "        at = mmap(0, 32 << 20, PROT_READ | PROT_WRITE,\n"
                 "                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);\n"
                 "        end = at + (32 << 20);\n"
                 "    }\n"
                 "    char *p = at; at += n; *(size_t *)p = n - 16; return p + 16; }\n"
                 "void free(void *p) { (void)p; }\n"
                 "void *calloc(size_t a, size_t b) { return malloc(a * b); }\n"
                 "void *realloc(void *p, size_t n) {\n"
                 "    char *q = malloc(n);\n"
                 "    if (p) memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);\n"
                 "    return q; }\n")
        with tempfile.TemporaryDirectory() as folder:
            program, library = os.path.join(folder, "user"), os.path.join(folder, "libjemalloc.so.2")
            subprocess.run([compiler, "-x", "c", "-o", program, "-"], input=code.encode(),
                           check=True)
            subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-O1", "-fno-builtin",
                            "-o", library, "-"], input=other.encode(), check=True)
            with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env={**os.environ, "LD_PRELOAD": library}) as child:
                child.stdout.readline()
                for words in (["heap"], ["pins"], ["report"]):
                    done = run(*words, child.pid, "--json")
                    screen = run(*words, child.pid)
                    if words == ["report"]: # whole: every byte has its place
                        self.assertEqual((done.code, done.json()["partial"]), (0, None), done)
                        self.assertRegex(screen.out, r"this\s+version\s+recognises\s+and\s+does\s+not")
                    else:
                        self.assertEqual(done.code, 4, done)
                        self.assertIn("not walked in this version", done.json()["partial"]["text"])
                        self.assertIn("PARTIAL", screen.out)
                    self.assertNotIn("no live block", screen.out)
                    proposed = screen.out.split("NEXT", 1)[1]
                    self.assertNotRegex(proposed, "memwhy (pins|trim|heap)")
                    self.assertNotIn("a source with memory", screen.out)
                self.assertEqual(run(child.pid, "--no-heap").code, 0)
                done = run(child.pid, "--fail-if", "kept>0")
                self.assertEqual(done.code, 4, done)
                self.assertIn("cannot be decided", done.err)
                child.stdin.close()

    def test_trim_of_a_core_without_residency_is_partial(self):
        if not shutil.which("gcore"):
            self.skipTest("gdb (gcore) is not installed")
        with tempfile.TemporaryDirectory() as folder, Sleeper() as target:
            subprocess.run(["gcore", "-o", os.path.join(folder, "core"), str(target.pid)],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            done = run("trim", os.path.join(folder, f"core.{target.pid}"), "--json")
            self.assertEqual(done.code, 4, done)
            self.assertIsNone(done.json()["predicted_bytes"])

    def test_apply_and_verify(self):
        with Sleeper() as target, tempfile.TemporaryDirectory() as folder:
            before = os.path.join(folder, "before.json")
            with open(before, "w", encoding="utf-8") as file:
                file.write(run(target.pid, "--json").out)
            applied = run("trim", target.pid, "--apply", "--json")
            self.assertEqual(applied.code, 0, applied)
            answer = applied.json()
            self.assertIs(answer["applied"], True)
            self.assertEqual(answer["actual_bytes"],
                             answer["anon_before_bytes"] - answer["anon_after_bytes"])
            self.assertIn("malloc_trim(0)", applied.err)  # it is said
            verified = run("verify", before, target.pid, "--json")
            self.assertIn(verified.code, (0, 1), verified)
            document = verified.json()
            self.assertTrue(document["same_process"])
            self.assertEqual(verified.code, 1 if document["not_met"] else 0)

    def test_apply_is_refused_while_it_may_be_in_malloc(self):
        """A thread that calculates without a pause may be anywhere, in malloc too."""
        with Sleeper("print('ready', flush=True)\nwhile True: x = [1]", sleeps=False) as target:
            done = run("trim", target.pid, "--apply", "--json")
            self.assertEqual(done.code, 4, done)
            self.assertIn("not run", done.err)
            answer = done.json()
            self.assertEqual((answer["applied"], answer["actual_bytes"]), (False, None))
            self.assertIn("not run", answer["partial"]["text"])
            with open(f"/proc/{target.pid}/status", encoding="utf-8") as file:
                status = file.read()
            self.assertIn("TracerPid:\t0\n", status)
            self.assertRegex(status, r"State:\t[RS]")

    def test_apply_while_all_threads_wait(self):
        """For a condition, which is a futex as malloc's lock is one, but of another kind."""
        code = ("import threading\n"
                "kept = ['x' * n for n in range(3000)]\ndel kept\n"
                "event = threading.Event()\n"
                "threads = [threading.Thread(target=event.wait, daemon=True) for _ in range(3)]\n"
                "for one in threads: one.start()\n"
                "print('ready', flush=True)\n"
                "event.wait()\n")
        target = Sleeper(code)
        with target:
            done = run("trim", target.pid, "--apply", "--json")
            target.child.kill()
        self.assertEqual((done.code, done.json()["applied"]), (0, True), done)

    def test_apply_is_refused_on_a_static_program(self):
        path = os.path.join(os.environ.get("MEMWHY_FIXTURES", os.path.join(
            command.ROOT, "build", "tests", "fixtures")), "heapshape-static")
        if not os.access(path, os.X_OK):
            self.skipTest("the static fixture is not built")
        with subprocess.Popen([path, "static", "/dev/null"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            done = run("trim", child.pid, "--apply")
            child.kill()
        self.assertEqual(done.code, 4, done)
        self.assertIn("linked statically", done.err)

    def test_apply_is_refused_on_a_file(self):
        done = run("trim", "-", "--apply", stdin=PLAIN_SMAPS)
        self.assertEqual(done.code, 4, done)
        self.assertIn("not run", done.err)

    def test_verify_of_two_reports(self):
        with Sleeper() as target, tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(run(target.pid, "--json").out)
            file.flush()
            done = run("verify", file.name, file.name, "--json")
            self.assertIn(done.code, (0, 1), done)
            for figure in done.json()["figures"]:
                self.assertIn(figure["delta"], (0, None))


class Listing(unittest.TestCase):
    def test_json(self):
        with Sleeper() as target:
            done = run("--json", "-n", "0")
        self.assertEqual((done.code, done.err), (0, ""), done)
        document = done.json()
        self.assertEqual(document["schema"], "memwhy.list/1")
        rows = document["processes"]
        self.assertEqual(len(rows), document["process_count"])
        sizes = [row["rss_bytes"] for row in rows]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        mine = [row for row in rows if row["pid"] == target.pid]
        self.assertEqual(len(mine), 1)
        self.assertTrue(mine[0]["readable"])
        self.assertGreater(mine[0]["rss_bytes"], 1 << 20)

    def test_table(self):
        done = run("-n", "3")
        self.assertEqual((done.code, done.err), (0, ""), done)
        lines = done.out.splitlines()
        self.assertRegex(lines[0], r"^3 of \d+ processes")
        self.assertRegex(lines[1], r"PID +RSS +anon +swap +threads")
        self.assertRegex(lines[2], r"^ *\d+ +[\d,]+\.\d")
        self.assertIn("NEXT", done.out)


class Next(unittest.TestCase):
    """The commands that a screen proposes can be pasted, and work."""

    def test_a_name_is_quoted(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a $b's.txt")
            with open(path, "wb") as file:
                file.write(PLAIN_SMAPS)
            for name in ("report", "heap", "pins"):
                last = run(name, path).out.split("NEXT", 1)[1].strip().splitlines()[-1]
                self.assertIn(path, shlex.split(last), last)

    def test_standard_input_is_not_read_twice(self):
        unowned = PLAIN_SMAPS.replace(b" [heap]", b"")
        for name in ("report", "heap", "pins"):
            out = run(name, "-", stdin=unowned).out
            self.assertNotRegex(out.split("\n", 1)[1], r"memwhy (\w+ )?-( |$)")
            self.assertIn("save it to a file first", out)

    def test_the_list_proposes_what_can_be_read(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        done = run_as_nobody()
        proposed = re.findall(r"^(?:NEXT)? +memwhy (?:(doctor) )?(\w+) ", done.out, re.M)
        self.assertTrue(proposed, done)
        for doctor, pid in proposed:
            if pid != "PID":
                self.assertEqual(os.stat(f"/proc/{pid}").st_uid == 65534, doctor == "", done)


class Hostile(unittest.TestCase):
    """Damaged texts and cores: an answer or a refusal, never a crash."""

    ROUNDS = 120

    def sources(self):
        texts = [PLAIN_SMAPS]
        if os.path.isdir(command.SMAPS):
            for name in sorted(os.listdir(command.SMAPS)):
                with open(os.path.join(command.SMAPS, name), "rb") as file:
                    texts.append(file.read())
        with Sleeper() as target:
            with open(f"/proc/{target.pid}/smaps", "rb") as file:
                texts.append(file.read())
            report = run(target.pid, "--json").out.encode()
        return texts, report

    @staticmethod
    def damage(text, rng):
        text = bytearray(text)
        for _ in range(rng.randrange(1, 30)):
            at = rng.randrange(max(1, len(text)))
            choice = rng.randrange(4)
            if choice == 0 and text:
                text[min(at, len(text) - 1)] = rng.randrange(256)
            elif choice == 1:
                del text[at:at + rng.randrange(200)]
            elif choice == 2:
                text[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
            else:
                text[at:at] = rng.choice((b"18446744073709551615", b"-1", b"ffffffffffffffff",
                                          b"\n", b"\0", b"kB", b"\x1b[2J"))
        return bytes(text)

    def look(self, seed, *words, **more):
        try:
            done = run(*words, **more)
        except subprocess.TimeoutExpired:
            self.fail(f"seed {seed}: {words} takes over a minute")
        self.assertIn(done.code, (0, 1, 3, 4), f"seed {seed}: {done}")
        self.assertNotIn("internal error", done.err)
        for text in (done.out, done.err):
            self.assertNotIn("\x1b", text, f"seed {seed}")
            self.assertNotIn("\0", text, f"seed {seed}")
        return done

    def test_smaps(self):
        texts, _ = self.sources()
        base = random.randrange(1 << 30)
        for seed in range(base, base + self.ROUNDS):
            rng = random.Random(seed)
            words = rng.choice((["-"], ["-", "--json"], ["maps", "-"], ["maps", "-", "--json"],
                                ["-", "--markdown"], ["heap", "-"], ["trim", "-"]))
            done = self.look(seed, *words, stdin=self.damage(rng.choice(texts), rng))
            if "--json" in words and done.code == 0:
                json.loads(done.out)

    def test_reports(self):
        _, report = self.sources()
        base = random.randrange(1 << 30)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "before.json")
            for seed in range(base, base + self.ROUNDS // 2):
                with open(path, "wb") as file:
                    file.write(self.damage(report, random.Random(seed)))
                self.look(seed, "verify", path, path)

    def test_core(self):
        """A core of the kernel's, damaged in its first pages."""
        with tempfile.TemporaryDirectory() as folder:
            core = self.make_core(folder)
            if core is None:
                self.skipTest("gdb (gcore) is not installed")
            with open(core, "rb") as file:
                content = file.read()
            base = random.randrange(1 << 30)
            for seed in range(base, base + self.ROUNDS // 3):
                rng = random.Random(seed)
                damaged = self.damage(content[:16384], rng)[:16384] + content[16384:]
                with open(core, "wb") as file:
                    file.write(damaged)
                words = rng.choice((["report"], ["heap"], ["maps"], ["report", "--json"]))
                self.look(seed, *words, core)

    @staticmethod
    def make_core(folder):
        with Sleeper() as target:
            try:
                done = subprocess.run(["gcore", "-o", os.path.join(folder, "core"),
                                       str(target.pid)], capture_output=True, check=False,
                                      stdin=subprocess.DEVNULL, timeout=60)
            except OSError:
                return None
            path = os.path.join(folder, f"core.{target.pid}")
            return path if done.returncode == 0 and os.path.exists(path) else None


if __name__ == "__main__":
    tap.main()
