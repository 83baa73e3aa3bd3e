#!/usr/bin/env python3
"""--help of every command: what it says, that it agrees with the man page and with what the program
takes, and --version."""
import os
import re
import unittest

import command
import tap
from command import run


def help_options(text):
    """The long options of the section Options."""
    found = set()
    for line in text.splitlines():
        if re.match(r"^\s+-", line):
            found |= set(re.findall(r"--[a-z][a-z0-9-]*", re.split(r"\s{2,}", line.strip())[0]))
    return found


class Help(unittest.TestCase):
    def assert_help(self, done):
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.err, "", done)
        self.assertTrue(all(len(line) <= 100 for line in done.out.splitlines()), done)

    def test_each_command(self):
        for name in command.COMMANDS:
            with self.subTest(name):
                done = run(name, "--help")
                self.assert_help(done)
                self.assertTrue(done.out.startswith(f"memwhy {name} "), done)
                for part in ("Options", "Examples", "Exit codes", "--json", "--help"):
                    self.assertIn(part, done.out)
                self.assertEqual(run("help", name).out, done.out)
                self.assertEqual(run(name, "-h").out, done.out)
                # Asking for help never looks at a target.
                self.assertEqual(run(name, "no-such-target", "--help").out, done.out)

    def test_all(self):
        done = run("--help")
        self.assert_help(done)
        for name in command.COMMANDS:
            self.assertRegex(done.out, rf"\n  {name} ")
        self.assertEqual(run("help").out, done.out)

    def test_fields(self):
        done = run("help", "fields")
        self.assertEqual((done.code, done.err), (0, ""))
        for name in ("rss_bytes, bytes", "trimmable_bytes, bytes", "paused_seconds, seconds",
                     "arenas_estimated, count", "outcome, text"):
            self.assertIn("  " + name, done.out)

    def test_unknown_topic(self):
        done = run("help", "frobnicate")
        self.assertEqual((done.code, done.out), (2, ""))
        self.assertIn("frobnicate", done.err)

    def test_version(self):
        for words in (["--version"], ["-V"], ["report", "--version"]):
            done = run(*words)
            self.assertEqual((done.code, done.err), (0, ""))
            self.assertRegex(done.out, r"^memwhy \d+\.\d+\.\d+\n$")

    def test_man_pages_have_the_same_options(self):
        for name in ("",) + command.COMMANDS:
            page = os.path.join(command.ROOT, "man", f"memwhy{'-' if name else ''}{name}.1")
            with self.subTest(name or "memwhy"):
                self.assertTrue(os.path.exists(page), page)
                with open(page, encoding="utf-8") as file:
                    section = file.read().split(".Sh OPTIONS", 1)[1].split(".Sh ", 1)[0]
                items = "\n".join(re.findall(r"^\.It .*$", section, re.M))
                in_page = {"--" + one for one in re.findall(r"\bFl -([a-z][a-z0-9-]*)", items)}
                words = [name] if name else []
                self.assertEqual(help_options(run(*words, "--help").out), in_page)

    def test_each_option_is_taken(self):
        """What --help lists is no usage error."""
        values = {"--count": "3", "--max-pause": "20ms", "--sample-arenas": "8",
                  "--fail-if": "rss<1", "--symbols": "/nonexistent",
                  "--suppressions": "/dev/null", "--size": "64", "--limit": "3",
                  "--after": "1s", "--control": "/nonexistent",
                  "--output": "/nonexistent/file"}
        for name in command.COMMANDS:
            for option in sorted(help_options(run(name, "--help").out)):
                words = [name, option] + ([values[option]] if option in values else [])
                targets = {"verify": ["/nonexistent"] * 2, "doctor": [],
                           "refs": ["/nonexistent", "0x1000"],
                           "diff": ["/nonexistent"] * (1 if option == "--after" else 2)}
                if name == "collect" and option not in ("--output", "--help"):
                    words += ["-o", "/nonexistent/file"]
                if option == "--limit":
                    words.append("--list")
                if name == "diff" and option == "--control":
                    words += words[1:]
                done = run(*words, *targets.get(name, ["/nonexistent"]))
                with self.subTest(f"{name} {option}"):
                    self.assertNotEqual(done.code, 2, done)


if __name__ == "__main__":
    tap.main()
