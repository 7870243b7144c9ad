"""A peer as the scripts of patterns.py see it: a process that executes commands on its one socket, one per line.

Every command has a deadline. If a peer misses it, or ends, it is killed and Broken is raised; the next cell starts a
new process.
"""
import functools
import os
import select
import subprocess
import time

COMMAND_S = 20
READ_BYTES = PIPE_BYTES = 1 << 20
SHOWN_BYTES = 60


class Broken(Exception):
    """Ends a cell: a peer answered with an error, too late or not at all, or something unexpected was received."""


def shown(frames):
    """Frames in readable form: short ones in full, long ones as their beginning and the number of remaining bytes."""
    parts = [repr(f) if len(f) <= SHOWN_BYTES else f"{f[:8]!r}+{len(f) - 8}" for f in frames]
    return "[" + ", ".join(parts) + "]"


@functools.cache
def word(frame):
    """A frame in the line protocol's encoding. Cached, because the same few frames recur, some of them long."""
    return frame.hex() or "-"


class Peer:
    def __init__(self, name, command, log):
        self.name, self.command, self.log = name, command, log
        self.process, self.rest = None, b""

    def start(self):
        self.rest = b""
        self.process = subprocess.Popen(
            [str(word) for word in self.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            pipesize=PIPE_BYTES,
        )
        os.set_blocking(self.process.stdin.fileno(), False)

    def stop(self):
        """Kills the process: an open socket might delay a normal exit."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def do(self, *words):
        """Sends a command. Returns the words of its answer, or None if the answer is `late`."""
        if not self.process:
            self.start()
        deadline = time.monotonic() + COMMAND_S
        self.write((" ".join(words) + "\n").encode(), words[0], deadline)
        kind, *answer = self.line(words[0], deadline).decode().split()
        if kind == "late":
            return None
        if kind != "ok":
            raise Broken(f"{self.name}: {words[0]}: {' '.join(answer)}")
        return answer

    def wait(self, descriptor, writing, command, deadline):
        wanted = ([], [descriptor], []) if writing else ([descriptor], [], [])
        if not any(select.select(*wanted, max(0, deadline - time.monotonic()))):
            raise Broken(f"{self.name}: {command}: no answer after {COMMAND_S} s")

    def write(self, data, command, deadline):
        stdin = self.process.stdin.fileno()
        while data:
            self.wait(stdin, True, command, deadline)
            try:
                data = data[os.write(stdin, data):]
            except BrokenPipeError:
                raise Broken(f"{self.name}: {command}: the peer has ended") from None

    def line(self, command, deadline):
        stdout, parts = self.process.stdout.fileno(), [self.rest]
        while b"\n" not in parts[-1]:
            self.wait(stdout, False, command, deadline)
            parts.append(os.read(stdout, READ_BYTES))
            if not parts[-1]:
                raise Broken(f"{self.name}: {command}: the peer has ended, {self.process.wait()}")
        line, _, self.rest = b"".join(parts).partition(b"\n")
        return line

    def send(self, *frames):
        self.do("send", *map(word, frames))

    def recv(self, milliseconds):
        """The frames of the next message, or None if none arrives in time."""
        words = self.do("recv", str(milliseconds))
        return None if words is None else [bytes.fromhex(digits.strip("-")) for digits in words]

    def expect(self, *frames, milliseconds=10_000):
        """Receives the next message; it must be this one, byte for byte."""
        words = self.do("recv", str(milliseconds))
        if words is None:
            raise Broken(f"{self.name}: nothing came; expected {shown(frames)}")
        if words != [word(frame) for frame in frames]:
            got = [bytes.fromhex(digits.strip("-")) for digits in words]
            raise Broken(f"{self.name}: received {shown(got)}; expected {shown(frames)}")
