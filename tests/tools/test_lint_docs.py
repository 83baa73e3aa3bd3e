"""tools/lint_docs.py and tools/lint_scripts.py: each rule finds its bad input."""
import unittest

import tap
import tree

CHANGELOG = "# Changes\n\n## 0.1.0\n\n### Output format\n\n- `memwhy.report/1`\n"


class Docs(tree.TreeTest):
    TOOL = "lint_docs.py"
    FILES = {
        "CHANGELOG.md": CHANGELOG,
        "meson.build": "project('memwhy', 'c',\n  version: '0.1.0',\n  license: 'x')\n",
        "src/report/json.c": '/* a */\nconst char *schema = "memwhy.report/1";\n',
        "README.md": "See [changes](CHANGELOG.md#a), [web](https://example.org), `src/report/`,\n"
                     "`src/<room>/a.c`, `tests/{a,b}` and\n```\n`src/gone.c`\n```\n",
    }

    def test_good(self):
        self.assert_good()

    def test_dead_link(self):
        self.write("docs/a.md", "[x](../README.md)\n[y](gone.md)\n")
        self.assert_bad("docs/a.md:2: [link] 'gone.md' leads nowhere")

    def test_dead_path(self):
        self.write("docs/a.md", "see `src/gone.c`\n")
        self.assert_bad("docs/a.md:1: [path] 'src/gone.c' does not exist")

    def test_no_changelog(self):
        (self.root / "CHANGELOG.md").unlink()
        self.write("README.md", "")
        self.assert_bad("[changelog] is missing")

    def test_version_without_section(self):
        self.write("meson.build", "project('memwhy', 'c',\n  version: '0.2.0')\n")
        self.assert_bad("has no section of 0.2.0")

    def test_output_format_comes_first(self):
        self.write("CHANGELOG.md", CHANGELOG.replace("### Output format", "### Added"))
        self.assert_bad("does not begin with '### Output format'")

    def test_schema_not_mentioned(self):
        self.write("src/report/json.c", 'const char *schema = "memwhy.report/2";\n')
        self.assert_bad("does not mention memwhy.report/2")


class Scripts(tree.TreeTest):
    TOOL = "lint_scripts.py"
    FILES = {"tools/a.py": "a = 1\n", "tools/b.sh": "echo a\n"}

    def setUp(self):
        super().setUp()
        self.write("tools/c", "#!/usr/bin/env python3\nprint(1)\n", 0o755)
        self.write("tools/d", "#!/usr/bin/env bash\na=(1 2)\n", 0o755)

    def test_good(self):
        self.assert_good()

    def test_python_that_does_not_parse(self):
        self.write("tools/a.py", "a = 1\nif:\n")
        self.assert_bad("tools/a.py:2: [script]")

    def test_shell_that_does_not_parse(self):
        self.write("tools/b.sh", "if true; then\n")
        self.assert_bad("tools/b.sh:1: [script]")

    def test_not_executable(self):
        self.write("tools/c", "#!/usr/bin/env python3\nprint(1)\n")
        self.assert_bad("is not executable")

    def test_path_of_an_interpreter(self):
        self.write("tools/c", "#!/usr/local/bin/python3\nprint(1)\n", 0o755)
        self.assert_bad("is not portable")


if __name__ == "__main__":
    tap.main()
