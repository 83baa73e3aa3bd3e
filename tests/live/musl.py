"""Building programs with musl, for the tests of it.

MUSL_ROOTS: folders, separated by colons, to which Debian's packages musl and musl-dev of another
release were unpacked (dpkg-deb -x); they are tested beside the system's own.
"""

import os
import re
import shutil
import subprocess

from harness import ROOT, Failure, Skip, scratch_dir

FIXTURE_SOURCES = os.path.join(ROOT, "tests", "fixtures")
HEAPSHAPE = ("heapshape.c", "shapes_common.c", "shapes_small.c", "shapes_large.c", "shapes_split.c")


class Musl:
    """One release of musl below root ("/" is the system)."""

    def __init__(self, root):
        machine = os.uname().machine
        self.root = root
        self.lib = os.path.join(root, f"usr/lib/{machine}-linux-musl")
        self.include = os.path.join(root, f"usr/include/{machine}-linux-musl")
        self.libc = os.path.join(self.lib, "libc.so")
        specs = os.path.join(self.lib, "musl-gcc.specs")
        if not os.path.exists(specs):
            raise Skip(f"no {specs} (apt-get install musl-tools)")
        if not shutil.which("gcc"):
            raise Skip("gcc is not installed")
        self.version = self._version()
        with open(specs, encoding="ascii") as file:
            text = file.read()
        text = re.sub(r"/usr/lib/\S*?-linux-musl(?=[/\s])", self.lib, text)
        text = re.sub(r"/usr/include/\S*?-linux-musl(?=[/\s])", self.include, text)
        if root != "/":
            text = re.sub(r"(-dynamic-linker )\S+", r"\g<1>" + self.libc, text)
        self.specs = os.path.join(scratch_dir(), f"musl-{self.version}.specs")
        with open(self.specs, "w", encoding="ascii") as file:
            file.write(text)

    def _version(self):
        said = subprocess.run([self.libc], capture_output=True, text=True, check=False).stderr
        found = re.search(r"^Version (\S+)", said, re.M)
        if not found:
            raise Failure(f"{self.libc} does not tell its version: {said[:200]}")
        return found.group(1)

    def compile(self, name, sources, *flags, static=False):
        """The path of a new program. One that cannot be built is a failure: the compiler and musl
        are there."""
        path = os.path.join(scratch_dir(), f"{name}-musl-{self.version}"
                            + ("-static" if static else ""))
        done = subprocess.run(
            ["gcc", "-specs", self.specs, "-O2", "-g", "-fno-builtin-malloc",
             "-isystem", os.path.join(FIXTURE_SOURCES, "musl"), *flags,
             *(["-static"] if static else []), "-pthread", "-o", path, *sources],
            capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"{name} cannot be built with musl {self.version}: {done.stderr[:300]}")
        return path

    def fixture(self, name, *sources, static=False):
        """One of tests/fixtures; its totals are 0, its table of blocks is the truth."""
        paths = [os.path.join(FIXTURE_SOURCES, source) for source in (*sources, "fx.c", "fx_io.c")]
        return self.compile(name, paths, static=static)


def releases():
    """The system's musl, and those that MUSL_ROOTS names."""
    roots = ["/", *filter(None, os.environ.get("MUSL_ROOTS", "").split(":"))]
    return [Musl(root) for root in roots]
