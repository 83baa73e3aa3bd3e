#!/usr/bin/env python3
"""Checks the man pages against the program and against each other.

    tools/lint_man.py [ROOT]            $MEMWHY names the program, else ROOT/build/memwhy

A page man/memwhy-CMD.1 belongs to `memwhy CMD --help`, man/memwhy.1 to `memwhy --help`. Each
option of one must be in the other: in the help an option stands on a line that begins with blanks
and a dash, in the page in an `.It Fl` line of the section OPTIONS. Each page has all sections, no
warning of groff, and refers to pages of memwhy that exist. Exit 1 when something is printed; 77
when there is no program to ask.
"""
import os
import re
import shutil
import subprocess
import sys

import lintlib

SECTIONS = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "OVERHEAD", "ACCURACY", "EXIT STATUS",
            "EXAMPLES", "FILES", "SEE ALSO")


def sections_of(text):
    """name -> text of each .Sh section."""
    found, name = {}, None
    for line in text.splitlines():
        if line.startswith(".Sh "):
            name = line[4:].strip().strip('"')
            found[name] = ""
        elif name:
            found[name] += line + "\n"
    return found


def page_options(options_text):
    """The long options of the section OPTIONS: `.It Fl -json` is --json."""
    items = "\n".join(line for line in options_text.splitlines() if line.startswith(".It "))
    return {"--" + name for name in re.findall(r"\bFl -([a-z][a-z0-9-]*)", items)}


def help_options(text):
    """The long options of a help text: of each line that begins with blanks and a dash, those that
    stand before its description (two blanks)."""
    found = set()
    for line in text.splitlines():
        if re.match(r"^\s+-", line):
            head = re.split(r"\s{2,}", line.strip())[0]
            found |= set(re.findall(r"--[a-z][a-z0-9-]*", head))
    return found


def ask_help(program, command):
    """(exit code, text) of `memwhy CMD --help`."""
    done = subprocess.run([program, *([command] if command else []), "--help"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=20, check=False)
    return done.returncode, done.stdout


def check_page(root, path, report):
    """What needs no program: sections, references, groff. Returns the sections."""
    text = (root / path).read_text()
    sections = sections_of(text)
    for name in SECTIONS:
        if name not in sections:
            report.add(path, 1, "man", f"has no section {name}")
    for name in re.findall(r"^\.Xr (memwhy\S*) 1", text, re.M):
        if not (root / "man" / f"{name}.1").exists():
            report.add(path, 1, "man", f"refers to {name}(1), which does not exist")
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-mdoc", "-Tutf8", "-ww", "-z", root / path],
                              stderr=subprocess.PIPE, text=True, check=False)
        for line in done.stderr.splitlines()[:5]:
            report.add(path, 1, "man", line)
    return sections


def check_options(program, path, sections, report):
    command = path.stem.partition("-")[2]
    code, text = ask_help(program, command)
    if code != 0:
        report.add(path, 1, "man", f"memwhy {command} --help ends with {code}")
        return
    in_page, in_help = page_options(sections.get("OPTIONS", "")), help_options(text)
    for option in sorted(in_help - in_page):
        report.add(path, 1, "man", f"{option} is in --help and not here")
    for option in sorted(in_page - in_help):
        report.add(path, 1, "man", f"{option} is here and not in --help")


def main(arguments):
    root = lintlib.root_from(arguments)
    report = lintlib.Report()
    pages = [path for path in lintlib.files_of(root, ".1") if path.parts[0] == "man"]
    if not pages:
        report.add("man", 1, "man", "there are no pages")
    program = os.environ.get("MEMWHY") or str(root / "build/memwhy")
    present = os.access(program, os.X_OK)
    for path in pages:
        sections = check_page(root, path, report)
        if present:
            check_options(program, path, sections, report)
    if not report.count and not present:
        print("there is no memwhy to ask for --help")
        sys.exit(77)
    report.exit()


if __name__ == "__main__":
    main(sys.argv[1:])
