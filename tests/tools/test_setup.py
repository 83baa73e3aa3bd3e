"""tools/deps.sh and tools/configure.sh, with stand-ins for dpkg-query, id, apt-get and meson."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import tap

SOURCE = Path(os.environ["MEMWHY_SOURCE"])


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        (self.root / "bin").mkdir()

    def stand_in(self, name, script):
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_script(self, name, *arguments, **environment):
        """(exit code, standard output, standard error) of a script of tools/."""
        full = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", **environment}
        if "NO_DEPS" not in environment:
            full.pop("NO_DEPS", None)
        done = subprocess.run(["/bin/sh", SOURCE / "tools" / name, *arguments], env=full,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)
        return done.returncode, done.stdout, done.stderr


class Deps(Script):
    def setUp(self):
        super().setUp()
        self.stand_in("apt-get", f"echo called >>{self.root}/apt; exit 1")
        self.stand_in("id", "echo 1000")
        self.stand_in("dpkg-query", "for p in meson gcc; do echo \"ii  $p\"; done; exit 1")

    def test_list(self):
        code, output, _ = self.run_script("deps.sh", "--list", "build", "test")
        self.assertEqual(code, 0)
        packages = output.split()
        self.assertEqual(packages, sorted(set(packages)))
        for package in ("meson", "ninja-build", "libzstd-dev", "clang", "libcmocka-dev"):
            self.assertIn(package, packages)

    def test_every_purpose_is_known(self):
        for purpose in ("build", "demo", "test", "real", "static", "fuzz", "lint", "bench"):
            self.assertEqual(self.run_script("deps.sh", "--list", purpose)[0], 0, purpose)

    def test_unknown_purpose(self):
        self.assertEqual(self.run_script("deps.sh", "--list", "dinner")[0], 2)

    def test_missing_without_root_names_them(self):
        code, _, error = self.run_script("deps.sh", "build")
        self.assertEqual(code, 1)
        self.assertIn("hint: sudo apt-get install", error)
        self.assertIn(" ninja-build", error)
        self.assertNotIn(" meson", error)
        self.assertFalse((self.root / "apt").exists())

    def test_all_present_is_silent(self):
        self.stand_in("dpkg-query", "shift 2; for p in \"$@\"; do echo \"ii  $p\"; done")
        self.assertEqual(self.run_script("deps.sh", "build", "test"), (0, "", ""))

    def test_no_deps(self):
        self.assertEqual(self.run_script("deps.sh", "build", NO_DEPS="1"), (0, "", ""))


class Configure(Script):
    def setUp(self):
        super().setUp()
        self.log = self.root / "log"
        self.stand_in("meson", f'echo "$CC $*" >>{self.log}\n'
                      f'[ "$1" = setup ] && mkdir -p {self.root}/b && : >{self.root}/b/build.ninja\n'
                      'exit 0')

    def calls(self, *arguments):
        """The lines that meson was called with."""
        self.log.write_text("")
        code, _, error = self.run_script("configure.sh", f"{self.root}/b", *arguments)
        self.assertEqual(code, 0, error)
        return self.log.read_text().splitlines()

    def test_first_time(self):
        self.assertEqual(self.calls("gcc", "-Da=1"), [f"gcc setup {self.root}/b -Da=1"])

    def test_repeated_and_fewer_options_do_nothing(self):
        self.calls("gcc", "-Da=1", "-Db=2")
        self.assertEqual(self.calls("gcc", "-Da=1", "-Db=2"), [])
        self.assertEqual(self.calls("gcc", "-Db=2"), [])

    def test_changed_option(self):
        self.calls("gcc", "-Da=1", "-Db=2")
        self.assertEqual(len(self.calls("gcc", "-Da=3")), 1)
        self.assertEqual(self.calls("gcc", "-Da=3", "-Db=2"), [])
        self.assertEqual(len(self.calls("gcc", "-Da=1")), 1)

    def test_other_compiler_begins_anew(self):
        self.calls("gcc", "-Da=1")
        self.assertEqual(self.calls("clang", "-Da=1"), [f"clang setup {self.root}/b -Da=1"])

    def test_failure_is_passed_on(self):
        self.stand_in("meson", "echo no compiler; exit 1")
        code, _, error = self.run_script("configure.sh", f"{self.root}/b", "gcc")
        self.assertEqual((code, error), (1, "no compiler\n"))


if __name__ == "__main__":
    tap.main()
