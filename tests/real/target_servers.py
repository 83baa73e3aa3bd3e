"""PostgreSQL, Redis and nginx in the foreground on 127.0.0.1.

Each writes its whole configuration into its own directory and takes nothing
from /etc. The work is fixed: the same counts on every run.
"""

import glob
import http.client
import os
import signal
import socket
import subprocess

import process
import procfs
from process import TargetError
from target import Target


class PostgreSQL(Target):
    """A cluster of its own: one backend that worked, and the postmaster."""

    name = "postgresql"
    packages = ("postgresql",)
    program = "postgres"

    secrets = ("xxxxxxxxxxxx", "SELECT sum(balance)")
    ROWS = 120_000

    def installed(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
        self.bin = os.path.dirname(found[-1]) if found else None
        return self.bin

    def _start(self):
        # The server refuses to run as root; Debian's package has the user.
        user = "postgres" if os.geteuid() == 0 else None
        self.port = process.free_port()
        if user:
            process.give_to(self.directory, user)
        data = self.path("data")
        process.run([f"{self.bin}/initdb", "-D", data, "-A", "trust", "--no-sync",
                     "-U", "memwhy", "-E", "UTF8", "--locale=C.UTF-8"],
                    self.directory, 60, user=user)
        # SIGINT is the fast shutdown: sessions are ended, nothing is lost.
        server = self.launch(
            [f"{self.bin}/postgres", "-D", data, "-h", "127.0.0.1",
             "-p", str(self.port), "-k", self.directory,
             "-c", "fsync=off", "-c", "shared_buffers=32MB",
             "-c", "work_mem=32MB"],
            user=user, stop_signal=signal.SIGINT)
        ready = [f"{self.bin}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        process.wait_until(
            lambda: subprocess.run(ready, check=False).returncode == 0,
            "postgres", 30, server)
        self.session = self.launch(
            [f"{self.bin}/psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1",
             "-p", str(self.port), "-U", "memwhy", "postgres"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pids = {"backend": int(self.ask("SELECT pg_backend_pid()")),
                     "postmaster": server.pid}

    def _work(self):
        """Inserts, a sort and a hash in memory, many cached plans."""
        self.ask("CREATE TABLE accounts (id int PRIMARY KEY, branch int,"
                 " balance bigint, filler text); SELECT 1")
        for start in range(0, self.ROWS, 20_000):
            self.ask("INSERT INTO accounts SELECT i, i % 97, i * 7, repeat('x', i % 83)"
                     f" FROM generate_series({start}, {start + 19_999}) i; SELECT 1")
        self.ask("SELECT count(*) FROM (SELECT DISTINCT filler, balance FROM accounts"
                 " ORDER BY balance DESC) t")
        for n in range(300):
            self.ask(f"PREPARE p{n} AS SELECT sum(balance) FROM accounts"
                     f" WHERE branch = {n % 97} AND id < $1; SELECT {n}")
        if int(self.ask("SELECT count(*) FROM accounts")) != self.ROWS:
            raise TargetError("rows are missing")

    def ask(self, sql):
        """Send one statement that yields one line; the line."""
        try:
            self.session.stdin.write(sql + ";\n")
            self.session.stdin.flush()
            answer = self.session.stdout.readline().strip()
        except OSError as error:
            raise TargetError(f"session lost: {error}") from error
        if not answer:
            raise TargetError(f"no answer to {sql[:80]}")
        return answer

    def ping(self):
        return self.ask("SELECT 41 + 1") == "42"


class Redis(Target):
    """One server, its keys half deleted. Debian builds it with jemalloc."""

    name = "redis"
    packages = ("redis-server",)
    program = "redis-server"
    allocator = "jemalloc"

    secrets = ("vvvvvvvvvvvv", "key:1", "field:1")
    KEYS = 150_000

    def _start(self):
        self.port = process.free_port()
        config = self.write("redis.conf", "\n".join((
            "bind 127.0.0.1", f"port {self.port}", "daemonize no", 'save ""',
            "appendonly no", f"dir {self.directory}", "")))
        server = self.launch(["redis-server", config])
        process.wait_until(lambda: process.accepts(self.port), "redis", 20, server)
        self.link = socket.create_connection(("127.0.0.1", self.port), 30)
        self.answers = self.link.makefile("rb")
        self.pids = {"server": server.pid}

    def _work(self):
        for start in range(0, self.KEYS, 5_000):
            self._pipeline([("SET", f"key:{i}", "v" * (16 + i % 499))
                            for i in range(start, start + 5_000)])
        for start in range(0, 20_000, 2_000):
            self._pipeline([("HSET", f"hash:{i % 50}", f"field:{i}", str(i))
                            for i in range(start, start + 2_000)])
        for start in range(0, self.KEYS, 10_000):
            self._pipeline([("DEL", f"key:{i}")
                            for i in range(start, start + 10_000, 2)])
        left = self._pipeline([("DBSIZE",)])[0]
        if left != b":%d" % (self.KEYS // 2 + 50):
            raise TargetError(f"redis holds {left!r} keys")

    def _pipeline(self, commands):
        """Send COMMANDS at once; their one-line answers."""
        parts = []
        for words in commands:
            parts.append(f"*{len(words)}\r\n")
            parts += [f"${len(word)}\r\n{word}\r\n" for word in words]
        self.link.sendall("".join(parts).encode())
        answers = [self.answers.readline().rstrip() for _ in commands]
        if any(not a or a.startswith(b"-") for a in answers):
            raise TargetError("redis refused a command")
        return answers

    def _end(self):
        if hasattr(self, "link"):
            self.answers.close()
            self.link.close()

    def ping(self):
        return self._pipeline([("PING",)]) == [b"+PONG"]


class Nginx(Target):
    """One worker that served and compressed; and the master.

    As root the worker changes its user and is then not dumpable: memwhy must
    cope with that. A limit_req zone gives it shared memory.
    """

    name = "nginx"
    packages = ("nginx",)
    program = "nginx"
    secrets = ("quick brown fox", "page.txt")

    def _start(self):
        self.port = process.free_port()
        user = "user www-data;" if os.geteuid() == 0 else ""
        os.chmod(self.directory, 0o755)
        os.mkdir(self.path("html"))
        self.write("html/page.txt", "".join(
            f"line {i}: the quick brown fox jumps over the lazy dog\n"
            for i in range(20_000)))
        temporary = "\n".join(f"    {kind}_temp_path {self.path(kind)};"
                              for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = self.write("nginx.conf", f"""
{user}
worker_processes 1;
daemon off;
pid {self.path("pid")};
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
{temporary}
    access_log off;
    gzip on;
    gzip_types text/plain;
    gzip_buffers 64 16k;
    open_file_cache max=100;
    limit_req_zone $binary_remote_addr zone=one:4m rate=100000r/s;
    server {{
        listen 127.0.0.1:{self.port};
        root {self.path("html")};
        location / {{ limit_req zone=one burst=1000 nodelay; }}
    }}
}}
""")
        master = self.launch(["nginx", "-p", self.directory, "-c", config])
        process.wait_until(lambda: process.accepts(self.port), "nginx", 20, master)
        worker = process.wait_until(lambda: procfs.children(master.pid),
                                    "nginx worker", 10, master)
        self.pids = {"worker": worker[0], "master": master.pid}

    def _get(self, link, compressed):
        headers = {"Accept-Encoding": "gzip"} if compressed else {}
        link.request("GET", "/page.txt", headers=headers)
        answer = link.getresponse()
        body = answer.read()
        if answer.status != 200 or not body:
            raise TargetError(f"nginx answered {answer.status}")

    def _work(self):
        links = [http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                 for _ in range(24)]
        for turn in range(5):
            for link in links:
                self._get(link, compressed=turn % 2 == 0)
        for link in links[1:]:
            link.close()
        self.link = links[0]

    def _end(self):
        if hasattr(self, "link"):
            self.link.close()

    def ping(self):
        try:
            self._get(self.link, compressed=False)
        except (http.client.HTTPException, ConnectionError):
            self.link.close()          # the server closes an idle connection
            self._get(self.link, compressed=False)
        return True
