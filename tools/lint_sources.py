#!/usr/bin/env python3
"""Compares the file lists of the meson.build files with what is on disk.

    tools/lint_sources.py [ROOT]            lists every difference; exit 1 if there is one
    tools/lint_sources.py --write [ROOT]    rewrites the lists (`make sources`)

A room is a folder of src/; a folder inside a room (src/heap/glibc) has a list of its own that the
room's meson.build enters with subdir(). Lists of tests name targets, one for each test_*.c or
fuzz_*.c. Only the lines between the two brackets of a list and the subdir() lines are ours; the
rest of such a file is left as it is.
"""
import re
import sys
from pathlib import Path

ROOM_HEADER = "# The sources of this folder; `make sources` rewrites the list.\n"
UNIT_RULES = """
foreach name : {variable}
  test(name,
    executable('test_' + name, 'test_' + name + '.c', dependencies: [support_dep, cmocka]),
    protocol: 'tap', suite: '{room}', env: test_env, timeout: 120)
endforeach
"""
FUZZ_RULES = """
# Without -Dfuzz=true a target is linked with a driver that runs it once over each file of its
# corpus, so each corpus is also an ordinary test.
foreach name : {variable}
  if get_option('fuzz')
    executable('fuzz_' + name, 'fuzz_' + name + '.c', dependencies: support_dep,
      link_args: '-fsanitize=fuzzer')
  else
    test(name,
      executable('fuzz_' + name, 'fuzz_' + name + '.c', 'driver.c', dependencies: support_dep),
      args: [meson.current_source_dir() / 'corpus' / name],
      protocol: 'tap', suite: 'fuzz', env: test_env, timeout: 300)
  endif
endforeach
"""


class List:
    """One list in one meson.build: its variable, the names that belong in it, a first version."""

    def __init__(self, folder, opening, closing, names, subdirs=(), trailer="", header=ROOM_HEADER):
        self.path = folder / "meson.build"
        self.opening, self.closing = opening, closing
        self.names, self.subdirs = sorted(names), sorted(subdirs)
        self.trailer, self.header = trailer, header

    def block(self):
        lines = "".join(f"  '{name}',\n" for name in self.names)
        return f"{self.opening}\n{lines}{self.closing}\n"

    def span(self, text):
        """(start, end) of the list in the text of the file, or None."""
        start = text.find(self.opening + "\n")
        if start < 0:
            return None
        end = text.find("\n" + self.closing + "\n", start)
        return (start, end + len(self.closing) + 2) if end >= 0 else None

    def problems(self):
        if not self.path.exists():
            return [f"{self.path}: missing; `make sources` writes it"] if self.names else []
        text = self.path.read_text()
        span = self.span(text)
        if span is None:
            return [f"{self.path}: has no list '{self.opening}'"]
        listed = re.findall(r"'([^']+)'", text[span[0]:span[1]])
        entered = re.findall(r"^subdir\('([^']+)'\)", text, re.M)
        found = []
        for name in self.names:
            if listed.count(name) != 1:
                found.append(f"{self.path}: '{name}' is listed {listed.count(name)} times")
        for name in listed:
            if name not in self.names:
                found.append(f"{self.path}: '{name}' is listed and not there")
        for name in self.subdirs:
            if name not in entered:
                found.append(f"{self.path}: folder '{name}' has sources and no subdir() line")
        return found

    def write(self):
        if not self.problems():
            return False
        text = self.path.read_text() if self.path.exists() else ""
        span = self.span(text)
        if span:
            text = text[:span[0]] + self.block() + text[span[1]:]
        else:
            text = (text or self.header) + self.block() + self.trailer
        entered = re.findall(r"^subdir\('([^']+)'\)", text, re.M)
        for name in self.subdirs:
            if name not in entered:
                text += f"subdir('{name}')\n"
        self.path.write_text(text)
        return True


def folder_lists(room_folder, variable):
    """The list of a folder of src/ and those of the folders inside it."""
    inner = [folder for folder in sorted(room_folder.iterdir()) if folder.is_dir()]
    lists, subdirs = [], []
    for folder in inner:
        below = folder_lists(folder, variable)
        if any(one.names or one.path.exists() for one in below):
            lists += below
            subdirs.append(folder.name)
    own = List(room_folder, f"{variable} += files(", ")",
               [path.name for path in room_folder.glob("*.c")], subdirs)
    return [own] + lists


def test_list(folder, prefix, rules):
    variable = f"{folder.name}_{'targets' if prefix == 'fuzz_' else 'tests'}"
    names = [path.stem[len(prefix):] for path in folder.glob(prefix + "*.c")]
    header = "# One program for each name; `make sources` rewrites the list.\n"
    return List(folder, f"{variable} = [", "]", names, header=header,
                trailer=rules.format(variable=variable, room=folder.name))


def all_lists(root):
    lists = []
    source = root / "src"
    for folder in sorted(source.iterdir()) if source.is_dir() else []:
        if folder.is_dir():
            lists += folder_lists(folder, "cli_sources" if folder.name == "cli" else "core_sources")
    for room in ("unit", "fault", "cores"):
        folder = root / "tests" / room
        if folder.is_dir() and any(folder.glob("test_*.c")):
            lists.append(test_list(folder, "test_", UNIT_RULES))
    fuzz, support = root / "tests" / "fuzz", root / "tests" / "support"
    if fuzz.is_dir() and any(fuzz.glob("fuzz_*.c")):
        lists.append(test_list(fuzz, "fuzz_", FUZZ_RULES))
    if support.is_dir() and any(support.glob("*.c")):
        lists.append(List(support, "support_sources += files(", ")",
                          [path.name for path in support.glob("*.c")]))
    return [one for one in lists if one.names or one.subdirs or one.path.exists()]


def main(arguments):
    write = "--write" in arguments
    roots = [argument for argument in arguments if argument != "--write"]
    root = Path(roots[0]) if roots else Path(__file__).resolve().parent.parent
    bad = False
    for one in all_lists(root):
        if write:
            if one.write():
                print(f"sources: wrote {one.path}")
            continue
        for problem in one.problems():
            print(problem)
            bad = True
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
