"""`make static`: one file that runs where nothing of its own system is."""
# timeout: 600
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import tap

SOURCE = Path(os.environ["MEMWHY_SOURCE"])
PROGRAM = SOURCE / "build-static/memwhy"
# A program of another libc: 1,000 blocks of 1,009 bytes, then it waits for its input's end.
OTHER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    for (int i = 0; i < 1000; i++)
        memset(malloc(1009), 'x', 1009);
    puts("ready");
    fflush(stdout);
    return getchar() == 'x';
}
"""


@unittest.skipUnless(os.environ.get("MEMWHY") and Path(os.environ["MEMWHY"]).exists(),
                     "memwhy is not built")
class Static(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run(["make", "-C", SOURCE, "static"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env={**os.environ, "NO_DEPS": "1"})
        if done.returncode != 0:
            raise AssertionError(done.stdout[-4000:])

    def test_needs_no_interpreter_and_no_library(self):
        headers = subprocess.run(["readelf", "-lW", PROGRAM], check=True, stdout=subprocess.PIPE,
                                 text=True).stdout
        self.assertIn("LOAD", headers)
        self.assertNotIn("INTERP", headers)
        self.assertNotIn("DYNAMIC", headers)

    def test_links_without_warnings_about_libraries_at_run_time(self):
        """getpwnam and the like would need the very glibc it was linked with."""
        PROGRAM.unlink()
        output = subprocess.run(["ninja", "-C", PROGRAM.parent, "memwhy"], check=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        self.assertNotIn("statically linked applications requires", output)

    @unittest.skipIf(os.geteuid() != 0, "needs root for chroot")
    def test_in_a_root_with_another_libc_only(self):
        if not shutil.which("musl-gcc"):
            self.skipTest("musl-tools is not installed")
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            self.fill(root)
            # A mount namespace of its own: the mount of /proc is gone with the process.
            done = subprocess.run(
                ["unshare", "--mount", "sh", "-c",
                 f"mount --bind /proc {root}/proc && exec chroot {root} /other"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0 or "ready" not in done.stdout:
                self.skipTest("unshare --mount is not permitted")
            self.look_at_other(root)

    def fill(self, root):
        """/memwhy, /other and musl's loader, and nothing else."""
        (root / "proc").mkdir()
        (root / "lib").mkdir()
        (root / "other.c").write_text(OTHER)
        subprocess.run(["musl-gcc", "-O1", "-o", root / "other", root / "other.c"], check=True)
        (root / "other.c").unlink()
        loader = re.search(r"/lib/ld-musl-\w+\.so\.1", subprocess.run(
            ["readelf", "-lW", root / "other"], check=True, stdout=subprocess.PIPE,
            text=True).stdout).group(0)
        shutil.copy(os.path.realpath(loader), str(root) + loader)
        shutil.copy(PROGRAM, root / "memwhy")

    def look_at_other(self, root):
        with subprocess.Popen(["chroot", root, "/other"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as other:
            try:
                self.assertEqual(other.stdout.readline(), b"ready\n")
                done = subprocess.run(
                    ["unshare", "--mount", "sh", "-c", f"mount --bind /proc {root}/proc && "
                     f"exec chroot {root} /memwhy report {other.pid} --json"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
                self.assertIn(done.returncode, (0, 4), done.stderr)
                report = json.loads(done.stdout)
            finally:
                other.kill()
        charged = sum(one["rss_bytes"] for one in report["categories"])
        self.assertEqual(charged + report["unknown_bytes"], report["rss_bytes"])
        self.assertGreater(report["rss_bytes"], 1000 * 1009)
        self.assertEqual([one["kind"] for one in report["allocators"]], ["musl"])


if __name__ == "__main__":
    tap.main()
