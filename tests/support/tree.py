"""A small source tree in a temporary folder, and a tool of tools/ run on it."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["MEMWHY_SOURCE"])


class TreeTest(unittest.TestCase):
    TOOL = ""    # the file name of the tool
    FILES = {}   # path -> text: a tree that the tool finds good

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        for path, text in self.FILES.items():
            self.write(path, text)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text, mode=0o644):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def run_tool(self, *arguments, **environment):
        """(exit code, output) of the tool on the tree."""
        done = subprocess.run([sys.executable, SOURCE / "tools" / self.TOOL, *arguments,
                               str(self.root)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env={**os.environ, **environment}, check=False)
        return done.returncode, done.stdout

    def assert_good(self, **environment):
        self.assertEqual(self.run_tool(**environment), (0, ""))

    def assert_bad(self, *texts, **environment):
        """The tool complains once for each text, and each complaint has its text."""
        code, output = self.run_tool(**environment)
        self.assertEqual(code, 1, output)
        lines = output.splitlines()
        self.assertEqual(len(lines), len(texts), output)
        for text in texts:
            self.assertIn(text, output)
