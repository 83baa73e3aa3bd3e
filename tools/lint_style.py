#!/usr/bin/env python3
"""Checks the rules of style that a machine can check.

    tools/lint_style.py [ROOT]

    length     a .c, .h or .py file has at most 800 lines, a line of C at most 100 columns
    function   a C function has at most 70 lines, from its name to its closing brace
    opening    a .c or .h file opens with a comment
    banned     functions that overflow, misparse or start a shell, in src/
    gate       memory is allocated through base/alloc.h, in src/
    channel    exit(), argv and standard output belong to src/cli
    typedef    no typedef of structs, unions or enums, in src/
    word       nothing unfinished in src/
    path       no path of the machine that the tree stands on, in any file
    space      no tab and no blank at the end of a line, in C and Python

It reads C by its tokens, not by a compiler; a line of preprocessor is not code to it. Exit 1 when
something is printed.
"""
import re
import subprocess
import sys
from pathlib import Path

import lintlib

FILE_LINES_MAX, FUNCTION_LINES_MAX, COLUMNS_MAX = 800, 70, 100
BANNED = ("strcpy strcat strncpy strncat stpcpy sprintf vsprintf gets strtok atoi atol atoll atof "
          "system popen alloca tmpnam mktemp rand").split()
GATED = "malloc calloc realloc reallocarray strdup strndup asprintf vasprintf".split()
OUTPUT = "exit printf vprintf puts putchar perror".split()
WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK|not implemented|placeholder)\b", re.I)
# A folder that everybody has says nothing about one machine.
COMMON_FOLDERS = {"/", "/tmp", "/var/tmp", "/home", "/root", "/opt", "/srv", "/mnt", "/usr/src",
                  "/var", "/usr", "/build", "/src"}


def calls(names):
    return re.compile(r"(?<![\w.>])(" + "|".join(names) + r")\s*\(")


BANNED_CALL, GATED_CALL, OUTPUT_CALL = calls(BANNED), calls(GATED), calls(OUTPUT)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def functions_of(code):
    """(name, first line, last line) of each function in C without comments."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda match: "\n" * match.group(0).count("\n"), code, flags=re.M)
    depth, header_at, open_function = 0, 0, None
    for match in re.finditer(r"^\}|[{};]", code, re.M):
        token, at = match.group(0), match.start()
        if token == "{":
            header = code[header_at:at].rstrip()
            if depth == 0 and header.endswith(")") and "=" not in header:
                name = re.search(r"(?!__attribute__\b)\b([A-Za-z_]\w*)\s*\(", header)
                if name:
                    open_function = (name.group(1), line_of(code, header_at + name.start(1)))
            depth += 1
        elif token == "}":
            at_margin = at == 0 or code[at - 1] == "\n"
            depth = 0 if at_margin else max(0, depth - 1)
            if depth == 0:
                if open_function:
                    yield (*open_function, line_of(code, at))
                open_function, header_at = None, at + 1
        elif depth == 0:
            header_at = at + 1


def check_c(path, text, report):
    code = lintlib.strip_c(text)
    if not text.lstrip().startswith(("/*", "//")):
        report.add(path, 1, "opening", "a file opens with a comment: what it does, what it trusts")
    for name, first, last in functions_of(code):
        if last - first + 1 > FUNCTION_LINES_MAX:
            report.add(path, first, "function",
                       f"{name} has {last - first + 1} lines, at most {FUNCTION_LINES_MAX}")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS_MAX:
            report.add(path, number, "length", f"{len(line)} columns, at most {COLUMNS_MAX}")
    if path.parts[0] == "src":
        check_source(path, text, code, report)


def check_source(path, text, code, report):
    """The rules for the product alone: tests may print, exit and allocate."""
    def each(pattern, rule, why, where=code):
        for match in pattern.finditer(where):
            report.add(path, line_of(where, match.start()), rule, f"{match.group(0).strip()} {why}")

    each(BANNED_CALL, "banned", "is banned (tools/lint_style.py)")
    each(re.compile(r"\btypedef\s+(struct|union|enum)\b"), "typedef", "hides what a name is")
    each(WORDS, "word", "says that something is unfinished", text)
    if path.parts[1] != "base":
        each(GATED_CALL, "gate", "goes around base/alloc.h")
    if path.parts[1] != "cli":
        each(OUTPUT_CALL, "channel", "belongs to src/cli")
        each(re.compile(r"\b(stdout|argv)\b"), "channel", "belongs to src/cli")


def machine_folders(root):
    """The folders that hold this tree and, for a second work tree, the first one."""
    folders = {str(root.resolve().parent)}
    common = subprocess.run(["git", "-C", root, "rev-parse", "--path-format=absolute",
                             "--git-common-dir"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    if common:
        folders.add(str(Path(common).resolve().parent.parent))
    return sorted(folders - COMMON_FOLDERS)


def check_paths(root, path, text, folders, report):
    for folder in folders:
        at = re.search(re.escape(folder) + r"/", text)
        if at:
            report.add(path, line_of(text, at.start()), "path", f"{folder}/ is of this machine")


def main(arguments):
    root = lintlib.root_from(arguments)
    report = lintlib.Report()
    folders = machine_folders(root)
    for path in lintlib.files_of(root):
        data = (root / path).read_bytes()
        if b"\0" in data[:4096] or "corpus" in path.parts:
            continue
        text = data.decode("utf-8", "replace")
        check_paths(root, path, text, folders, report)
        is_c, is_python = path.suffix in (".c", ".h"), path.suffix == ".py"
        if is_c or is_python or path.suffix == ".def":
            if text.count("\n") > FILE_LINES_MAX:
                report.add(path, FILE_LINES_MAX, "length",
                           f"{text.count(chr(10))} lines, at most {FILE_LINES_MAX}")
            for match in re.finditer(r"\t|[ \t]+$", text, re.M):
                report.add(path, line_of(text, match.start()), "space", "a tab or a blank at the end")
        if is_c:
            check_c(path, text, report)
    report.exit()


if __name__ == "__main__":
    main(sys.argv[1:])
