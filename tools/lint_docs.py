#!/usr/bin/env python3
"""Checks what the documents say about the tree.

    tools/lint_docs.py [ROOT]

links       a relative link of a .md file leads to something
paths       a path in backticks that begins with a folder of the tree exists; a path with one of
            <>*{}… or ending in "/…" is a pattern and is left alone
changelog   CHANGELOG.md has the version of meson.build; its newest section begins with the output
            format; each JSON schema that src/ names (memwhy.NAME/N) is mentioned in it

Exit 1 when something is printed.
"""
import re
import sys

import lintlib

FOLDERS = ("src/", "tests/", "tools/", "docs/", "man/", "bench/", "web/", ".ci/")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`([^`\n]+)`")


def check_document(root, path, report):
    text = (root / path).read_text()

    def line(match):
        return text.count("\n", 0, match.start()) + 1

    for match in LINK.finditer(text):
        target = match.group(1)
        if "://" not in target and not (root / path).parent.joinpath(target).exists():
            report.add(path, line(match), "link", f"'{target}' leads nowhere")
    prose = re.sub(r"^```.*?^```", lambda block: "\n" * block.group(0).count("\n"), text,
                   flags=re.M | re.S)
    for match in CODE.finditer(prose):
        name = match.group(1).split()[0].rstrip(".,:;")
        if name.startswith(FOLDERS) and not re.search(r"[<>*{}…$]|NNN|NAME", name):
            if not (root / name).exists():
                report.add(path, line(match), "path", f"'{name}' does not exist")


def check_changelog(root, report):
    path = root / "CHANGELOG.md"
    if not path.exists():
        report.add("CHANGELOG.md", 1, "changelog", "is missing")
        return
    text = path.read_text()
    version = re.search(r"^\s*version:\s*'([^']+)'", (root / "meson.build").read_text(), re.M)
    if version and not re.search(rf"^## .*\b{re.escape(version.group(1))}\b", text, re.M):
        report.add("CHANGELOG.md", 1, "changelog", f"has no section of {version.group(1)}")
    headings = re.findall(r"^(##+) (.*)$", text, re.M)
    if len(headings) < 2 or headings[1] != ("###", "Output format"):
        report.add("CHANGELOG.md", 1, "changelog",
                   "the newest section does not begin with '### Output format'")
    schemas = set()
    for source in lintlib.files_of(root, ".c", ".h", ".def"):
        if source.parts[0] == "src":
            schemas |= set(re.findall(r"\bmemwhy\.[a-z]+/\d+", (root / source).read_text()))
    for schema in sorted(schemas):
        if schema not in text:
            report.add("CHANGELOG.md", 1, "changelog", f"does not mention {schema}")


def main(arguments):
    root = lintlib.root_from(arguments)
    report = lintlib.Report()
    for path in lintlib.files_of(root, ".md"):
        check_document(root, path, report)
    check_changelog(root, report)
    report.exit()


if __name__ == "__main__":
    main(sys.argv[1:])
