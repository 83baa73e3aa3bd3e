#!/usr/bin/env python3
# timeout: 300
"""Known layouts on live programs: C++ containers and Python objects of known counts.

Asks build/tests/layout/layouts, which names every block of a process. A count must be exact where
the program alone makes such blocks, and at least that where its libraries may make some, too.
"""

import os
import shutil
import subprocess
import sys

from harness import ROOT, Skip, Tap, scratch_dir

LAYOUTS = os.environ.get("MEMWHY_LAYOUTS") or os.path.join(ROOT, "build/tests/layout/layouts")
SOURCE = os.path.join(ROOT, "tests/live/layouts.cc")

PYTHON = """
import sys, zlib
class Thing:
    __slots__ = ("a", "b")
keep = [Thing() for _ in range(1009)]
big = [list(range(1000, 1200)) for _ in range(211)]
keys = [{f"k{i}-{j}": j for j in range(200)} for i in range(97)]
streams = [zlib.compressobj() for _ in range(31)]
print("ready", flush=True)
sys.stdin.read()
"""


def started(argv, env=None):
    """The process, once it has said that it is ready."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **(env or {})})
    if process.stdout.readline().strip() != "ready":
        process.kill()
        process.wait()
        raise Skip(f"{argv[0]} does not run here")
    return process


def names_of(process):
    """name -> count of all its blocks, and (size, basis, name) of the groups."""
    try:
        answer = subprocess.run([LAYOUTS, "--all", str(process.pid), "1"], text=True, timeout=120,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()
    if answer.returncode != 0:
        raise Skip(f"layouts: {answer.stdout.strip()}")
    names, groups = {}, []
    for line in answer.stdout.splitlines():
        fields = line.split("\t")
        if fields[0] == "name":
            names[fields[3]] = int(fields[1])
        elif fields[0].isdigit():
            groups.append((int(fields[0]), fields[3], fields[5]))
    return names, groups


def test_cxx(tap):
    compiler = shutil.which("g++")
    if not compiler:
        raise Skip("needs g++")
    program = os.path.join(scratch_dir(), "layouts")
    subprocess.run([compiler, "-O1", "-o", program, SOURCE], check=True)
    names, groups = names_of(started([program]))
    for name, count in (
            ("app::Widget (C++ object)", 1009),
            ("app::Gadget (C++ object)", 503),
            ("app::Error (C++ exception, thrown)", 97),
            ("node of a std::map or std::set, keyed by std::string", 2003),
            ("node of a std::unordered_map, keyed by std::string", 3001),
            ("node of a doubly linked list (std::list or alike)", 499),
            ("array of pointers to app::Widget", 1),
            ("array of std::string", 1)):
        tap.equal(names.get(name), count, f"C++: {count} of {name}")
    tap.ok(names.get("text", 0) >= 211, "C++: 211 texts of strings", names)
    widgets = [group for group in groups if group[2].endswith("app::Gadget (C++ object)")]
    tap.ok(widgets and widgets[0][1] == "exact", "C++: a group of one class is exact", groups)


def test_python(tap):
    python = "/usr/bin/python3"
    if not os.path.exists(python):
        raise Skip("needs Debian's python3")
    names, _ = names_of(started([python, "-c", PYTHON], {"PYTHONMALLOC": "malloc"}))
    # A block that is not written to keeps what the one before it held: one may look like a Thing.
    tap.close(names.get("Thing (Python object)"), 1009, 2, "Python: 1,009 instances of a class")
    tap.equal(names.get("zlib.Compress (Python object)"), 31, "Python: 31 objects of zlib")
    tap.equal(names.get("deflate state (zlib)"), 31, "Python: 31 states of deflate")
    for name, count in (("keys of a dict (Python)", 97), ("list (Python object)", 211),
                        ("str (Python object)", 97 * 200), ("function (Python object)", 100),
                        ("array of Python objects (int)", 211)):
        tap.ok(names.get(name, 0) >= count, f"Python: at least {count} of {name}",
               f"{names.get(name)}")
    named = sum(names.values()) - names.get("-", 0)
    tap.ok(named * 10 >= sum(names.values()) * 8, "Python: four in five blocks have a name",
           f"{named} of {sum(names.values())}")


def main():
    if not os.access(LAYOUTS, os.X_OK):
        print("1..0 # SKIP tests/layout/layouts is not built")
        return 77
    tap = Tap()
    for run in (test_cxx, test_python):
        try:
            run(tap)
        except Skip as why:
            tap.skip(run.__name__, str(why))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
