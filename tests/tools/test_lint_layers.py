"""tools/lint_layers.py: each direction an include may not take is found."""
import unittest

import tap
import tree


class Layers(tree.TreeTest):
    TOOL = "lint_layers.py"
    FILES = {
        "tools/layers.txt": (tree.SOURCE / "tools/layers.txt").read_text(),
        "src/heap/glibc/arena.c": '/* a */\n#include "base/str.h"\n#include "heap/walker.h"\n'
                                  '#include "heap/glibc/chunk.h"\n#include <stdio.h>\n',
        "src/heap/walkers.c": '#include "heap/glibc/arena.h"\n#include "image/image.h"\n',
        "src/session/session.c": '#include "collect/collect.h"\n#include "verdict/verdict.h"\n',
        "src/cli/main.c": '#include "report/text.h"\n',
    }

    def test_downward_is_good(self):
        self.assert_good()

    def test_upward(self):
        self.write("src/image/live.c", '/* a */\n#include "heap/walker.h"\n')
        self.assert_bad("src/image/live.c:2: [layers] includes \"heap/walker.h\": "
                        "image may not look up to heap")

    def test_sibling(self):
        self.write("src/heap/walk.c", '#include "runtime/probe.h"\n')
        self.assert_bad("heap and runtime are siblings")

    def test_neighbouring_folder(self):
        self.write("src/heap/musl/group.c", '#include "heap/glibc/chunk.h"\n')
        self.assert_bad("heap/musl may not know its neighbour heap/glibc")

    def test_used_by_session_only(self):
        self.write("src/verdict/rule.c", '#include "collect/collect.h"\n')
        self.assert_bad("collect is used by session only")

    def test_include_without_room(self):
        self.write("src/base/str.c", '#include "str.h"\n')
        self.assert_bad("an include names its room")

    def test_header_is_checked(self):
        self.write("src/base/str.h", '#  include "cli/main.h"\n')
        self.assert_bad("base may not look up to cli")

    def test_unknown_room(self):
        self.write("src/misc/a.c", "\n")
        self.assert_bad("room 'misc' is not in tools/layers.txt")

    def test_comment_is_no_include(self):
        self.write("src/base/str.h", '/*\n#include "cli/main.h"\n*/\n')
        self.assert_good()


if __name__ == "__main__":
    tap.main()
