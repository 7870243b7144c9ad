"""processes: the two sides of a transfer. Each runs below bench/files/launch.c, which tells its time, its CPU seconds
and its memory."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time
from dataclasses import dataclass

from harness import trial

LIMIT_S = 3600
PATIENCE_S = 20
LISTENING = "0A"  # of a row of /proc/net/tcp
# What the launcher prints, as it is called here, and the factor.
USAGE = {"took_ns": ("took_s", 1e-9), "cpu_us": ("cpu_s", 1e-6), "peak_kib": ("peak_mib", 1 / 1024)}


@dataclass(frozen=True)
class Service:
    """A program that a receiver connects to."""

    argv: list
    endpoint: str  # the one that it listens at
    ends_by_signal: bool  # otherwise by itself, or when its standard input ends


class Process:
    def __init__(self, launch, argv):
        pipe = subprocess.PIPE
        command = [str(word) for word in (launch, *argv)]
        self.child = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )

    def end(self, by_signal=False):
        """Waits for the end. Returns the pairs that the program printed, and its output as `out`."""
        if by_signal:
            if self.child.poll() is not None:
                why = self.child.stderr.read().strip()
                self.kill()
                raise trial.Failed(f"it has ended early: {why}")
            self.wait_for_children()
            os.killpg(self.child.pid, signal.SIGTERM)
        try:
            out, err = self.child.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise trial.Failed(f"no end after {LIMIT_S} s") from error
        finally:
            self.kill()
        if self.child.returncode and not by_signal:
            lines = err.strip().splitlines()
            raise trial.Failed(lines[-1] if lines else f"exit status {self.child.returncode}")
        return {**pairs_of(out), "out": out}

    def wait_for_children(self):
        """Waits until the program has no children: rsync's daemon has one for each connection, and a child's CPU
        seconds count once it has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while any(map(children, children(self.child.pid))):
            if time.monotonic() > deadline:
                raise trial.Failed("a connection is still served")
            time.sleep(0.005)

    def kill(self):
        trial.end_group(self.child)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            pipe.close()


def children(pid):
    """The children of a process; none if it has ended."""
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def cpu_s(pid):
    """CPU seconds of a process so far: proc_pid_stat(5), fields 14 and 15."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pairs_of(out):
    """The pairs of all lines that consist of pairs."""
    found = {}
    for line in out.splitlines():
        words = line.removeprefix("result ").split()
        if words and all("=" in word for word in words):
            found.update(trial.parse(" ".join(words)))
    for key, (name, factor) in USAGE.items():
        if key not in found:
            raise trial.Failed("the launcher has told nothing")
        found[name] = found[key] * factor
    return found


@contextlib.contextmanager
def running(launch, service, usage):
    """Context in which a service listens. `usage` gets what it told at its end."""
    process = Process(launch, service.argv)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not is_listening(service.endpoint):
            if process.child.poll() is not None or time.monotonic() > deadline:
                raise trial.Failed(f"{pathlib.Path(service.argv[0]).name} does not listen at {service.endpoint}")
            time.sleep(0.005)
        yield process
    except BaseException:
        process.kill()
        raise
    usage.update(process.end(service.ends_by_signal))


def is_listening(endpoint):
    """Asks the kernel: a connection would be the client that some services wait for."""
    transport, _, address = endpoint.partition("://")
    if transport == "ipc":
        rows = pathlib.Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
        return any(row.endswith(f" {address}") for row in rows)
    port = f":{int(address.rpartition(':')[2]):04X}"
    rows = [row.split() for row in pathlib.Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()]
    return any(row[1].endswith(port) and row[3] == LISTENING for row in rows[1:])


def transfer(launch, fetch, service=None, before=None):
    """Runs a receiver, with the service that it needs. Returns what both told. `before`: a receiver that runs first,
    and does not count."""
    sender, found, used_s = {}, {}, 0
    with running(launch, service, sender) if service else contextlib.nullcontext() as process:
        if before:
            Process(launch, before).end()
            used_s = sum(map(cpu_s, children(process.child.pid)))
        found["receiver"] = Process(launch, fetch).end()
    if before:
        sender["cpu_s"] -= used_s
    return {**found, "took_s": found["receiver"]["took_s"], **({"sender": sender} if service else {})}
