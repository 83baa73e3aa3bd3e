"""Icinga 2 with 3,000 hosts behind its HTTPS API, and the load on it.

Icinga 2 before 2.16 builds the whole answer of GET /v1/objects/hosts in
memory (an array of dictionaries, then one string). Parallel requests raise
its memory to a peak that glibc then keeps: the incident this target repeats.

Nothing is checked actively, so nothing forks; every host is given one
passive check result instead, which also makes the answers realistic.
"""

import base64
import http.client
import json
import os
import ssl
import threading
import time

import process
import procfs
from process import TargetError
from target import Target

NODE = "memwhy-target"
PASSWORD = "correct-horse-4711"
ROUND_SECONDS_MAX = 150

BASE_CONFIG = """
const ZoneName = NodeName
const TicketSalt = ""
include <itl>
object Endpoint NodeName {{ host = "127.0.0.1" }}
object Zone ZoneName {{ endpoints = [ NodeName ] }}
object ApiListener "api" {{
  bind_host = "127.0.0.1"
  bind_port = {port}
}}
object ApiUser "root" {{
  password = "{password}"
  permissions = [ "*" ]
}}
template Host "rack-host" {{
  check_command = "dummy"
  enable_active_checks = false
  max_check_attempts = 3
  check_interval = 5m
}}
{groups}
"""

HOST_CONFIG = """
object Host "node-{i:05d}.dc{dc}.example.net" {{
  import "rack-host"
  display_name = "Node {i} in rack {rack}"
  address = "10.{a}.{b}.{c}"
  groups = [ "dc-{dc}" ]
  notes = "Serial {serial:08x}; bought with batch {batch}; see the wiki for its history."
  vars.os = "Linux"
  vars.datacenter = "dc{dc}"
  vars.rack = "r{rack}"
  vars.owner = {{ team = "team-{team}", mail = "team-{team}@example.net", oncall = {oncall} }}
  vars.disks["/"] = {{ device = "/dev/sda1", size_gib = {size}, warn = "20%", crit = "10%" }}
  vars.disks["/var"] = {{ device = "/dev/sda2", size_gib = {size}, warn = "15%", crit = "5%" }}
  vars.http_vhosts["app-{i}"] = {{ uri = "/health/{i}", port = {port}, tls = true }}
  vars.tags = [ "generated", "batch-{batch}", "rack-{rack}", "team-{team}" ]
}}
"""


def host_text(i):
    return HOST_CONFIG.format(
        i=i, dc=i % 3, rack=i // 40, a=i >> 16, b=(i >> 8) & 255, c=i & 255,
        serial=i * 2654435761 % 2 ** 32, batch=i // 250, team=i % 17,
        oncall="true" if i % 5 else "false", size=64 << (i % 5), port=8000 + i % 100)


class Icinga2(Target):
    """The daemon in the foreground; `pid` is the worker, not the umbrella."""

    name = "icinga2"
    packages = ("icinga2-bin", "icinga2-common")
    program = "icinga2"
    secrets = ("Packet loss", "see the wiki", "team-1", "node-00001", PASSWORD)

    def __init__(self, hosts=3000, rounds=0, parallel=50):
        super().__init__()
        self.hosts = hosts
        self.rounds = rounds
        self.parallel = parallel
        self.retries = 0               # requests the daemon dropped and we repeated

    # The daemon --------------------------------------------------------

    def _defines(self):
        values = {
            "NodeName": NODE, "ConfigDir": self.directory,
            "DataDir": self.path("data"), "CacheDir": self.path("cache"),
            "InitRunDir": self.path("run"), "LogDir": self.path("log.d"),
            "SpoolDir": self.path("spool"),
        }
        if os.geteuid() == 0:
            values.update(RunAsUser="root", RunAsGroup="root")
        return [word for key, value in values.items()
                for word in ("-D", f"{key}={value}")]

    def _make_certificates(self):
        certs = self.path("data", "certs")
        os.makedirs(certs)
        base = os.path.join(certs, NODE)
        for words in (
                ["new-ca"],
                ["new-cert", "--cn", NODE, "--key", base + ".key", "--csr", base + ".csr"],
                ["sign-csr", "--csr", base + ".csr", "--cert", base + ".crt"]):
            process.run(["icinga2", "pki", *words, *self._defines()],
                        self.directory, 60)
        with open(self.path("data", "ca", "ca.crt"), encoding="ascii") as f:
            authority = f.read()
        with open(os.path.join(certs, "ca.crt"), "w", encoding="ascii") as f:
            f.write(authority)
        self.tls = ssl.create_default_context(cadata=authority)
        self.tls.check_hostname = False      # the name is not that of 127.0.0.1

    def _start(self):
        for name in ("data", "cache", "run", "log.d", "spool"):
            os.mkdir(self.path(name))
        self._make_certificates()
        self.port = process.free_port()
        groups = "\n".join(f'object HostGroup "dc-{dc}" {{ }}' for dc in range(3))
        config = self.write("icinga2.conf", BASE_CONFIG.format(
            port=self.port, password=PASSWORD, groups=groups)
            + "".join(host_text(i) for i in range(self.hosts)))
        umbrella = self.launch(["icinga2", "daemon", "-c", config,
                                "-x", "warning", *self._defines()])
        process.wait_until(lambda: process.accepts(self.port), "icinga2", 90, umbrella)
        # umbrella -> worker -> a helper that forks for checks
        workers = procfs.children(umbrella.pid)
        if len(workers) != 1:
            raise TargetError(f"the umbrella has children {workers}")
        self.pids = {"worker": workers[0]}
        self.umbrella_pid = umbrella.pid

    def _work(self):
        answer = self._request("POST", "/v1/actions/process-check-result", {
            "type": "Host", "filter": "true", "exit_status": 0,
            "plugin_output": "PING OK - Packet loss = 0%, RTA = 0.80 ms",
            "performance_data": ["rta=0.80ms;100;500;0", "pl=0%;20;60;0"],
            "check_source": NODE})
        if len(json.loads(answer)["results"]) != self.hosts:
            raise TargetError("not every host took its check result")
        if self.rounds:
            self.load(self.rounds, self.parallel)

    # The API -------------------------------------------------------------

    def _open(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60,
                                           context=self.tls)

    def _send(self, link, method, path, body=None):
        token = base64.b64encode(f"root:{PASSWORD}".encode()).decode()
        link.request(method, path, body and json.dumps(body), {
            "Accept": "application/json", "Authorization": f"Basic {token}"})

    def _request(self, method, path, body=None):
        link = self._open()
        try:
            self._send(link, method, path, body)
            answer = link.getresponse()
            content = answer.read()
        finally:
            link.close()
        if answer.status != 200:
            raise TargetError(f"{method} {path}: {answer.status} {content[:200]!r}")
        return content

    def _read_answer(self):
        """GET all hosts, read the answer and throw it away; its size."""
        link = self._open()
        try:
            self._send(link, "GET", "/v1/objects/hosts")
            answer = link.getresponse()
            size, buffer = 0, bytearray(1 << 20)
            while count := answer.readinto(buffer):
                size += count
            if answer.status != 200:
                raise TargetError(f"status {answer.status}")
            return size
        finally:
            link.close()

    def _client(self, barrier, sizes, errors):
        """One of the parallel clients.

        A loaded daemon closes connections whose request it did not come to
        within 10 s (CheckLiveness, Icinga 2.13): such a client asks again.
        """
        barrier.wait()
        deadline = time.monotonic() + ROUND_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                sizes.append(self._read_answer())
                return
            except (OSError, http.client.HTTPException) as error:
                errors.append(repr(error))
                time.sleep(0.2)

    def load(self, rounds=3, parallel=50):
        """ROUNDS times PARALLEL whole answers at once; bytes of one answer.

        Returns when memory is at rest again. Bounded: no client asks again
        after ROUND_SECONDS_MAX, and a socket operation ends after 60 s.
        """
        whole = len(self._request("GET", "/v1/objects/hosts"))
        for _ in range(rounds):
            sizes, errors = [], []
            barrier = threading.Barrier(parallel)
            threads = [threading.Thread(target=self._client,
                                        args=(barrier, sizes, errors))
                       for _ in range(parallel)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.retries += len(errors)
            if sizes != [whole] * parallel:
                raise TargetError(f"{len(sizes)} of {parallel} answers, sizes "
                                  f"{sorted(set(sizes))}, not {whole}: {errors[:1]}")
        self.settle()
        return whole

    def settle(self, quiet=1.5, timeout=30):
        """Wait until Anonymous has not changed for QUIET seconds."""
        state = {"last": None, "since": 0.0}

        def still():
            now = procfs.smaps_sum(self.pid, "Anonymous")
            if now != state["last"]:
                state.update(last=now, since=time.monotonic())
            return time.monotonic() - state["since"] >= quiet

        process.wait_until(still, "memory at rest", timeout)

    def ping(self):
        return b'"results"' in self._request("GET", "/v1/status/IcingaApplication")
