"""Programs under a language runtime: Python, Node.js, OpenJDK, .NET.

The programs are in programs/. All speak the same protocol: "ready" on
standard output once their work is done, "pong" for each line they read, and
they end at end of file.
"""

import os
import selectors
import shutil
import subprocess

import process
from process import TargetError, Unavailable
from target import Target

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")


class Program(Target):
    """A program of ours under a runtime, talked to over its pipes."""

    secrets = ("key-1", "key-3")

    def _argv(self):
        raise NotImplementedError

    def _start(self):
        self.program_process = self.launch(
            self._argv(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=self._environment())
        self.pids = {"process": self.program_process.pid}
        if self._line(60) != "ready":
            raise TargetError("the program did not get ready")

    def _environment(self):
        return {}

    def _line(self, timeout):
        """One line of the program's output, or "" after TIMEOUT seconds."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.program_process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                return ""
        return self.program_process.stdout.readline().strip()

    def ping(self):
        self.program_process.stdin.write("ping\n")
        self.program_process.stdin.flush()
        return self._line(10) == "pong"


class Python3(Program):
    """Debian's own interpreter, whatever else is first on PATH."""

    name = "python3"
    packages = ("python3",)
    program = "/usr/bin/python3"
    runtime = "cpython"

    def _argv(self):
        return ["/usr/bin/python3", os.path.join(PROGRAMS, "work.py")]


class Node(Program):
    name = "node"
    packages = ("nodejs",)
    program = "node"
    runtime = "node"

    def _argv(self):
        return ["node", os.path.join(PROGRAMS, "work.js")]


class OpenJDK(Program):
    """OpenJDK 17 with G1; the class is compiled into the own directory."""

    name = "openjdk"
    packages = ("openjdk-17-jdk-headless",)
    program = "javac"
    runtime = "jvm"

    HOME = "/usr/lib/jvm/java-17-openjdk-amd64"

    def installed(self):
        return os.path.exists(f"{self.HOME}/bin/javac")

    def _argv(self):
        process.run([f"{self.HOME}/bin/javac", "-d", self.directory,
                     os.path.join(PROGRAMS, "Work.java")], self.directory, 60)
        return [f"{self.HOME}/bin/java", "-XX:+UseG1GC", "-Xms64m", "-Xmx256m",
                "-cp", self.directory, "Work"]


class Dotnet(Program):
    """A small ASP.NET Core program; the SDK is not in Debian."""

    name = "dotnet"
    program = "dotnet"
    runtime = "dotnet"
    source = "dotnet"          # directory below programs/

    def install(self):
        if not shutil.which("dotnet"):
            raise Unavailable("needs the .NET SDK (dotnet on PATH), not in Debian")

    def _environment(self):
        return {
            "DOTNET_CLI_HOME": self.directory,
            "DOTNET_NOLOGO": "1",
            "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
            "DOTNET_CLI_USE_MSBUILD_SERVER": "0",
            "MSBUILDDISABLENODEREUSE": "1",
            "Logging__LogLevel__Default": "Warning",
        }

    def _argv(self):
        dotnet = shutil.which("dotnet")
        source, out = self.path("source"), self.path("out")
        shutil.copytree(os.path.join(PROGRAMS, self.source), source)
        major = process.run([dotnet, "--version"], self.directory, 60,
                            self._environment()).split(".")[0]
        process.run([dotnet, "build", source, "-o", out, "-c", "Release",
                     f"-p:WorkFramework=net{major}.0", "-p:UseSharedCompilation=false",
                     "-nodeReuse:false", "--nologo", "-v", "quiet"],
                    self.directory, 180, self._environment())
        return [dotnet, os.path.join(out, "work.dll"), str(process.free_port())]
