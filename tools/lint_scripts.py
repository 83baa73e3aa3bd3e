#!/usr/bin/env python3
"""Checks that every script can be parsed and run.

    tools/lint_scripts.py [ROOT]

Python is compiled, shell goes through `sh -n` (or `bash -n`, by its first line), a file that
begins with #! is executable (a test_*.py need not be: the runner starts it) and its interpreter is
found through /usr/bin/env, or is sh or bash.
Exit 1 when something is printed.
"""
import os
import subprocess
import sys

import lintlib

SHELLS = {b"#!/bin/sh": "sh", b"#!/usr/bin/env bash": "bash", b"#!/bin/bash": "bash"}


def main(arguments):
    root = lintlib.root_from(arguments)
    report = lintlib.Report()
    for path in lintlib.files_of(root):
        file = root / path
        first = file.open("rb").readline(200).rstrip()
        script = first.startswith(b"#!") and file.suffix not in (".md",)
        if script and not os.access(file, os.X_OK) and not path.name.startswith("test_"):
            report.add(path, 1, "script", "begins with #! and is not executable")
        if script and first not in SHELLS and not first.startswith(b"#!/usr/bin/env "):
            report.add(path, 1, "script", f"{first.decode('utf-8', 'replace')} is not portable")
        if file.suffix == ".py" or (script and b"python" in first):
            try:
                compile(file.read_bytes(), str(path), "exec")
            except (SyntaxError, ValueError) as error:
                report.add(path, getattr(error, "lineno", 1) or 1, "script", str(error))
        elif file.suffix == ".sh" or first in SHELLS:
            done = subprocess.run([SHELLS.get(first, "sh"), "-n", file], stderr=subprocess.PIPE,
                                  text=True, check=False)
            if done.returncode != 0:
                report.add(path, 1, "script", done.stderr.strip().splitlines()[0])
    report.exit()


if __name__ == "__main__":
    main(sys.argv[1:])
