"""tools/lint_sources.py: a list and its folder must agree, and --write makes them."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tap

TOOL = Path(os.environ["MEMWHY_SOURCE"]) / "tools/lint_sources.py"


class Sources(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.TemporaryDirectory()
        self.root = Path(self.tree.name)
        self.add("src/base/str.c", "src/heap/walkers.c", "src/heap/glibc/arena.c",
                 "src/cli/main.c", "tests/unit/test_str.c", "tests/fuzz/fuzz_elf.c",
                 "tests/support/bytes.c")
        self.assertEqual(self.run_tool("--write")[0], 0)

    def tearDown(self):
        self.tree.cleanup()

    def add(self, *paths):
        for path in paths:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text("")

    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, TOOL, *arguments, str(self.root)],
                              stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout

    def test_written_lists_agree(self):
        self.assertEqual(self.run_tool(), (0, ""))
        self.assertIn("  'walkers.c',\n", (self.root / "src/heap/meson.build").read_text())
        self.assertIn("subdir('glibc')\n", (self.root / "src/heap/meson.build").read_text())
        self.assertIn("cli_sources += files(", (self.root / "src/cli/meson.build").read_text())
        self.assertIn("  'str',\n", (self.root / "tests/unit/meson.build").read_text())

    def test_new_file_is_named(self):
        self.add("src/base/vec.c")
        code, output = self.run_tool()
        self.assertEqual(code, 1)
        self.assertIn("'vec.c' is listed 0 times", output)

    def test_lost_file_is_named(self):
        (self.root / "src/heap/glibc/arena.c").unlink()
        self.assertIn("'arena.c' is listed and not there", self.run_tool()[1])

    def test_line_listed_twice_is_named(self):
        path = self.root / "src/base/meson.build"
        path.write_text(path.read_text().replace("  'str.c',\n", "  'str.c',\n  'str.c',\n"))
        self.assertIn("'str.c' is listed 2 times", self.run_tool()[1])

    def test_new_folder_is_named(self):
        self.add("src/heap/musl/group.c")
        code, output = self.run_tool()
        self.assertEqual(code, 1)
        self.assertIn("folder 'musl' has sources and no subdir() line", output)

    def test_new_unit_test_is_named(self):
        self.add("tests/unit/test_vec.c")
        self.assertIn("'vec' is listed 0 times", self.run_tool()[1])

    def test_write_mends_and_keeps_the_rest(self):
        path = self.root / "src/base/meson.build"
        path.write_text(path.read_text() + "other = 1\n")
        self.add("src/base/vec.c")
        self.run_tool("--write")
        self.assertEqual(self.run_tool(), (0, ""))
        self.assertTrue(path.read_text().endswith("other = 1\n"))


if __name__ == "__main__":
    tap.main()
