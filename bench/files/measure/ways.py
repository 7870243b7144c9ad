"""ways: the ways to transfer a file or a folder, each as two programs."""

import os
import re
import tempfile

from harness.programs import ROOT, free_port
from harness.trial import Failed

from . import content, processes
from .processes import Service

HOST = "127.0.0.1"


def local():
    """An address that is free."""
    return f"{HOST}:{free_port()}"


class Ways:
    """Runs the programs. Calls `say` with each command."""

    def __init__(self, built, say):
        self.built, self.say = built, say

    def transfer(self, fetch, service=None, before=None):
        self.say(" ".join(map(str, fetch)))
        return processes.transfer(self.built["launch"], fetch, service, before)

    def server(self, folder, endpoint):
        argv = [self.built["pinnace"], "files", "serve", f"{folder}=/data", "--bind", endpoint]
        return Service(argv, endpoint, ends_by_signal=True)

    def counting_server(self, folder, endpoint):
        """A server that tells at its end how many bytes it has sent."""
        return Service([self.built["load"], "serve", folder, endpoint], endpoint, ends_by_signal=False)

    def get(self, endpoint, source, to=None):
        """The command that fetches a file of the served folder, or all of the folder; without `to` it discards."""
        path = f"/data/{source.name}" if source.is_file() else "/data/"
        argv = [self.built["pinnace"], "files", "get", "--quiet", "--server", endpoint, path]
        return [*argv, "--discard"] if to is None else [*argv, to]

    def ours(self, source, to=None, transport="tcp", counting=False, again=False):
        """`again`: from a server that has sent all of it before."""
        with tempfile.TemporaryDirectory(prefix="bench-files") as folder:
            endpoint = f"ipc://{folder}/s" if transport == "ipc" else f"tcp://{local()}"
            start = self.counting_server if counting else self.server
            before = self.get(endpoint, source) if again else None
            return self.transfer(self.get(endpoint, source, to), start(served(source), endpoint), before)

    def rsync(self, source, to):
        """From a daemon; its CPU seconds are those of its processes together, its memory that of the largest."""
        address = local()
        with tempfile.TemporaryDirectory(prefix="bench-files") as folder:
            config = f"{folder}/rsyncd.conf"
            with open(config, "w", encoding="utf-8") as file:
                file.write(
                    f"uid = {os.getuid()}\ngid = {os.getgid()}\nuse chroot = no\nlog file = /dev/null\n"
                    f"[data]\npath = {served(source)}\nread only = yes\n"
                )
            port = address.rpartition(":")[2]
            argv = ["rsync", "--daemon", "--no-detach", f"--address={HOST}", f"--port={port}", f"--config={config}"]
            path = f"/{source.name}" if source.is_file() else "/"
            return self.transfer(
                ["rsync", "-a", "--stats", f"rsync://{address}/data{path}", to],
                Service(argv, f"tcp://{address}", ends_by_signal=True),
            )

    def bare(self, source, to=None):
        """The steps of a verified copy over tcp, without a protocol."""
        address, load = local(), self.built["load"]
        found = self.transfer(
            [load, "bare-receive", address, *([to] if to else [])],
            Service([load, "bare-send", address, source], f"tcp://{address}", ends_by_signal=False),
        )
        if found["receiver"]["digest"] != found["sender"]["digest"]:
            raise Failed("the digests differ")
        return found

    def cp(self, source, to):
        return self.transfer(["cp", "-r", source, to])

    def model(self, name, source):
        """A model of the Guide on the system's libzmq. Without a high-water mark: with the Guide's it loses chunks."""
        endpoint = f"tcp://{local()}"
        argv = [self.built[name], "--endpoint", endpoint, "--hwm", "0"]
        service = Service([*argv, "--role", "server", source], endpoint, ends_by_signal=False)
        found = self.transfer([*argv, "--role", "client"], service)
        if str(ROOT) in str(found["receiver"]["library"]):
            raise Failed("it runs on another library than the system's")
        return found


def served(source):
    return source.parent if source.is_file() else source


def copied(way, source, to, before=None):
    """A way with a copy, which is checked, and then removed. `before` prepares the place."""
    if before:
        before()
    os.sync()
    try:
        found = way(source, to)
        content.check(source, to)
        return found
    finally:
        content.remove(to)


def received_by_rsync(found):
    """The bytes that rsync's client has received."""
    line = re.search(r"^Total bytes received: ([\d,]+)", found["receiver"]["out"], re.MULTILINE)
    return int(line[1].replace(",", ""))
