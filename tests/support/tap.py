"""TAP for Python tests: write unittest classes, end the file with `tap.main()`.

    import tap, unittest
    class Report(unittest.TestCase):
        def test_sum(self): ...
        @unittest.skipUnless(shutil.which("gdb"), "gdb is not installed")
        def test_gdb(self): ...
    if __name__ == "__main__":
        tap.main()

Each test prints its line as it ends (a file killed for its time still shows how far it came),
a failure its traceback as diagnostics, a skip its reason. Sub-tests that fail count each. A class
or module whose setUp fails gives one failed line. The plan comes last. Arguments, if any, choose
tests by parts of their names.
"""
import re
import sys
import unittest


def _one_line(text):
    return re.sub(r"\s+", " ", str(text)).strip()


class TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.failed_count = 0
        self.subtest_failed = False
        # Tests may print: TAP goes to the original output, theirs becomes diagnostics on stderr.
        self.output, sys.stdout = sys.stdout, sys.stderr

    def line(self, ok, test, extra="", details=""):
        self.count += 1
        self.failed_count += not ok
        name = _one_line(test).replace("__main__.", "").replace("#", "no. ")
        print(f"{'' if ok else 'not '}ok {self.count} - {name}{extra}", file=self.output)
        for detail in details.splitlines():
            print(f"# {detail}", file=self.output)
        self.output.flush()

    def startTest(self, test):
        self.subtest_failed = False
        super().startTest(test)

    def addSuccess(self, test):
        if not self.subtest_failed:
            self.line(True, test)

    def addFailure(self, test, err):
        self.line(False, test, details=self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.subtest_failed = True
            self.line(False, subtest, details=self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        self.line(True, test, f" # SKIP {_one_line(reason)}")

    def addExpectedFailure(self, test, err):
        self.line(False, test, details="an expected failure is not a result: mend or skip it")

    addUnexpectedSuccess = addSuccess


def _flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flatten(item)
        else:
            yield item


def main(module="__main__", arguments=None):
    """Runs the tests of a module, prints TAP, exits 1 if one failed."""
    wanted = sys.argv[1:] if arguments is None else arguments
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[module])
    if wanted:
        suite = unittest.TestSuite(test for test in _flatten(suite)
                                   if any(part in test.id() for part in wanted))
    result = TapResult()
    suite.run(result)
    print(f"1..{result.count}", file=result.output, flush=True)
    sys.exit(1 if result.failed_count else 0)
