"""tools/lint_man.py: pages and --help must name the same options."""
import unittest

import tap
import tree

PAGE = """.Dd December 1, 2026
.Dt MEMWHY-HEAP 1
.Os
.Sh NAME
.Nm memwhy-heap
.Nd arenas
.Sh SYNOPSIS
.Nm memwhy heap
.Ar target
.Sh DESCRIPTION
It prints.
.Sh OPTIONS
.Bl -tag -width Ds
.It Fl -json
Machine.
.It Fl -max-pause Ar duration
Stops.
.El
.Sh OVERHEAD
Small; unlike
.Fl -other
of another command.
.Sh ACCURACY
Exact.
.Sh EXIT STATUS
0.
.Sh EXAMPLES
None.
.Sh FILES
None.
.Sh SEE ALSO
.Xr memwhy-heap 1 ,
.Xr gdb 1
"""
HELP = """#!/bin/sh
cat <<T
usage: memwhy heap TARGET [options]
  --json                 one JSON document (not --text)
  --max-pause DURATION   how long
see --elsewhere
T
"""


class Man(tree.TreeTest):
    TOOL = "lint_man.py"
    FILES = {"man/memwhy-heap.1": PAGE}

    def setUp(self):
        super().setUp()
        self.program = str(self.root / "memwhy")
        self.write("memwhy", HELP, 0o755)

    def check(self, page=PAGE, text=HELP, bad=()):
        self.write("man/memwhy-heap.1", page)
        self.write("memwhy", text, 0o755)
        if bad:
            self.assert_bad(*bad, MEMWHY=self.program)
        else:
            self.assert_good(MEMWHY=self.program)

    def test_good(self):
        self.check()

    def test_option_only_in_help(self):
        self.check(text=HELP.replace("see", "  -x, --extra   more\nsee"),
                   bad=["--extra is in --help and not here"])

    def test_option_only_in_page(self):
        self.check(page=PAGE.replace(".It Fl -json\n", ".It Fl -json\n.It Fl -gone\n"),
                   bad=["--gone is here and not in --help"])

    def test_missing_section(self):
        self.check(page=PAGE.replace(".Sh ACCURACY\nExact.\n", ""), bad=["no section ACCURACY"])

    def test_reference_to_nothing(self):
        self.check(page=PAGE.replace(".Xr gdb 1", ".Xr memwhy-gone 1"),
                   bad=["refers to memwhy-gone(1)"])

    def test_command_that_the_program_lacks(self):
        self.check(text="#!/bin/sh\nexit 2\n", bad=["memwhy heap --help ends with 2"])

    def test_no_program_is_a_skip(self):
        code, output = self.run_tool(MEMWHY=str(self.root / "gone"))
        self.assertEqual((code, output), (77, "there is no memwhy to ask for --help\n"))

    def test_no_page_is_bad(self):
        (self.root / "man/memwhy-heap.1").unlink()
        self.assert_bad("there are no pages", MEMWHY=self.program)


if __name__ == "__main__":
    tap.main()
