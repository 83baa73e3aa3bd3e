"""What the lint tools share: which files there are, and C source without its comments."""
import os
import re
import subprocess
import sys
from pathlib import Path


def root_from(arguments):
    """The tree to check: the first argument, else the one that this file stands in."""
    return Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent


def files_of(root, *suffixes):
    """The files of a tree that Git knows or would add, as paths relative to the root, sorted.
    Outside of Git: all but hidden and build folders."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    top = subprocess.run(["git", "-C", root, "rev-parse", "--show-toplevel"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if listed.returncode == 0 and os.path.realpath(top.stdout.decode().strip()) == \
            os.path.realpath(root):
        names = set(listed.stdout.decode().split("\0")) - {""}
    else:
        names = {str(path.relative_to(root)) for path in Path(root).rglob("*")
                 if not any(part.startswith((".", "build")) for part in
                            path.relative_to(root).parts)}
    return sorted(Path(name) for name in names
                  if (not suffixes or name.endswith(suffixes)) and (Path(root) / name).is_file())


_TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def strip_c(text, keep_strings=False):
    """C source with comments and the inside of literals blanked; lines stay where they are."""
    def blank(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token if keep_strings else token[0] * 2
        return " " + "\n" * token.count("\n")
    return _TOKENS.sub(blank, text)


class Report:
    """Collects 'file:line: [rule] text' and makes the exit code."""

    def __init__(self):
        self.count = 0

    def add(self, path, line, rule, text):
        self.count += 1
        print(f"{path}:{line}: [{rule}] {text}")

    def exit(self):
        sys.exit(1 if self.count else 0)
