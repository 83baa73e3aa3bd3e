#!/usr/bin/env python3
"""Checks that includes in src/ go down only, by tools/layers.txt.

    tools/lint_layers.py [ROOT]

Rules: a quoted include names its room ("base/str.h"); the room is the file's own or stands on a
lower line of the table; a folder inside a room (heap/glibc) includes its own files and its room's,
never a neighbouring folder's; rooms with an `only` line are included by those named there alone.
Every room of src/ must be in the table. Exit 1 when something is printed.
"""
import re
import sys

import lintlib

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


def load_layers(path):
    """(room -> level, room -> the only rooms that may include it)."""
    levels, only, level = {}, {}, 0
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if "only" in words:
            at = words.index("only")
            only.update({room: words[at + 1:] for room in words[:at]})
        elif words:
            levels.update({room: level for room in words})
            level += 1
    return levels, only


def complaint(file, target, levels, only):
    """Why file (parts below src/) may not include target (its parts), or ''."""
    room, other = file[0], target[0]
    if other not in levels or len(target) < 2:
        return "an include names its room, like \"base/str.h\""
    if room == other:
        if len(file) > 2 and len(target) > 2 and file[1] != target[1]:
            return f"{room}/{file[1]} may not know its neighbour {room}/{target[1]}"
        return ""
    if other in only and room not in only[other]:
        return f"{other} is used by {' and '.join(only[other])} only"
    if levels[other] == levels[room]:
        return f"{room} and {other} are siblings"
    if levels[other] > levels[room]:
        return f"{room} may not look up to {other}"
    return ""


def main(arguments):
    root = lintlib.root_from(arguments)
    report = lintlib.Report()
    levels, only = load_layers(root / "tools/layers.txt")
    for path in lintlib.files_of(root, ".c", ".h", ".def"):
        file = path.parts[1:]
        if path.parts[0] != "src" or len(file) < 2:
            continue
        if file[0] not in levels:
            report.add(path, 1, "layers", f"room '{file[0]}' is not in tools/layers.txt")
            continue
        text = lintlib.strip_c((root / path).read_text(errors="replace"), keep_strings=True)
        for match in INCLUDE.finditer(text):
            why = complaint(file, match.group(1).split("/"), levels, only)
            if why:
                line = text.count("\n", 0, match.start(1)) + 1
                report.add(path, line, "layers", f"includes \"{match.group(1)}\": {why}")
    report.exit()


if __name__ == "__main__":
    main(sys.argv[1:])
