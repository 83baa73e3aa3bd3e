"""tools/lint_style.py: each rule finds its bad input, and good input passes."""
import unittest

import tap
import tree

GOOD = r'''/* base/str.c: strings. */
#include <string.h>

#define LOOP(x) do { \
        strcpy_free(x); \
    } while (0)

struct __attribute__((packed)) mw_pair {
    int first;
};

static const int table[] = {1, 2};

/* Comments may speak of strcpy(a, b), malloc() and printf(). */
int mw_str_length(const char *text)
{
    const char *name = "exit(1) argv {";
    char brace = '{';
    return (int)strlen(text) + name[0] + brace + table[0];
}
'''


def function(lines):
    """A function of so many lines, from its name to its brace."""
    return "/* a */\nstatic int\nlong_one(int a)\n{\n" + "    a++;\n" * (lines - 3) + "}\n"


class Style(tree.TreeTest):
    TOOL = "lint_style.py"
    FILES = {"src/base/str.c": GOOD}

    def check(self, code, *texts, path="src/heap/a.c"):
        self.write(path, code)
        if texts:
            self.assert_bad(*texts)
        else:
            self.assert_good()

    def test_good(self):
        self.assert_good()

    def test_function_length(self):
        self.check(function(70))
        self.check(function(71), "src/heap/a.c:3: [function] long_one has 71 lines")

    def test_function_after_ifdef_with_two_braces(self):
        self.check("/* a */\n#ifdef A\nint f(int a) {\n#else\nint f(long a) {\n#endif\n"
                   "    return 0;\n}\n" + function(71)[8:], "[function] long_one has 71 lines")

    def test_file_length(self):
        self.check("/* a */\n" + "int a;\n" * 800, "[length] 801 lines")
        self.check("/* a */\n" + "int a;\n" * 799)

    def test_columns(self):
        self.check("/* " + "a" * 95 + " */\n", "src/heap/a.c:1: [length] 101 columns")

    def test_opening_comment(self):
        self.check("#include <stdio.h>\n", "[opening]")
        self.check("int a;\n", "src/heap/a.c:1: [opening]", "src/heap/a.h:1: [opening]",
                   path="src/heap/a.h")

    def test_banned(self):
        for name in ("strcpy", "strcat", "sprintf", "gets", "strtok", "atoi", "system"):
            with self.subTest(name=name):
                self.check(f"/* a */\nint f(void)\n{{\n    {name} (a);\n}}\n",
                           f"src/heap/a.c:4: [banned] {name}")

    def test_names_that_hold_a_banned_one(self):
        self.check("/* a */\nint f(void)\n{\n    mw_strcpy(a);\n    it->system(a);\n}\n")

    def test_gate(self):
        self.check("/* a */\nvoid *f(void)\n{\n    return malloc(3);\n}\n", "[gate] malloc(")
        self.check("/* a */\n", path="src/heap/a.c")
        self.check("/* a */\nvoid *f(void)\n{\n    return malloc(3);\n}\n", path="src/base/alloc.c")

    def test_channel(self):
        for code in ("exit(1);", "printf(a);", "fprintf(stdout, a);", "return argv[0];"):
            with self.subTest(code=code):
                body = f"/* a */\nint f(void)\n{{\n    {code}\n}}\n"
                self.check(body, "[channel]")
                self.check("/* a */\n")
                self.check(body, path="src/cli/main.c")

    def test_typedef(self):
        self.check("/* a */\ntypedef struct a b;\n", "[typedef]")

    def test_words(self):
        for word in ("TODO", "fixme", "XXX", "HACK", "not implemented"):
            with self.subTest(word=word):
                self.check(f"/* a: {word} */\n", "[word]")

    def test_words_are_free_elsewhere(self):
        self.check("TODO\n", path="docs/a.md")

    def test_space(self):
        self.check("/* a */\n\tint a;\n", "src/heap/a.c:2: [space]")
        self.check("/* a */ \n", "src/heap/a.c:1: [space]")

    def test_path_of_the_machine(self):
        inner = self.root / "somewhere" / "tree"
        self.root = inner
        self.write("docs/a.md", f"see\n{inner.parent}/notes\n")
        self.assert_bad("docs/a.md:2: [path]")
        self.write("docs/a.md", "see /tmp/notes\n")
        self.assert_good()

    def test_tests_may_print_and_exit(self):
        self.check("/* a */\nint main(int argc, char **argv)\n{\n    printf(argv[argc]);\n"
                   "    exit(malloc(1) == 0);\n}\n", path="tests/unit/test_a.c")


if __name__ == "__main__":
    tap.main()
