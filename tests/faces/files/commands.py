"""A driver of file transfer: a program in one of the faces' languages that executes commands, one per line, and prints
each result. The suite uses a face only through its driver.

    serve SERVER [KEY=VALUE]...    a server; folder=ALIAS@PATH, writable=ALIAS@PATH, bind=ENDPOINT, cert=FILE,
                                   user=NAME@FILE, key=NAME@Z85, password=NAME@WORD, grant=USER@PATH@RIGHT (read,
                                   write); other keys are those of C -> endpoints ENDPOINT...
    sent SERVER                    -> number BYTES
    stop SERVER
    connect CLIENT ENDPOINT [KEY=VALUE]...    cert=FILE@SERVERFILE, curve=FILE@SERVERZ85, password=USER@WORD
    disconnect CLIENT
    get TRANSFER CLIENT PATH TO [RULE=VALUE]...    exclude=PATTERN, include=PATTERN; other rules are those of C
    put TRANSFER CLIENT FROM PATH [RULE=VALUE]...
    follow TRANSFER CLIENT PATH TO [RULE=VALUE]...
    list TRANSFER CLIENT PATH
    discard TRANSFER CLIENT PATH
    next TRANSFER TIMEOUT_MS       -> event KIND VALUE..., as below; over: there are no further ones
    events TRANSFER                all events, by the iteration that the language has
                                   -> events KIND..., without `progress`
    async TRANSFER                 the same, without a thread that waits: by a future, a coroutine, or a descriptor
    wait TRANSFER [TIMEOUT_MS]     -> report FILES BYTES FAILED [PATH:ERRNO:HERE]...
    interrupt TRANSFER             waits, while another thread cancels it
    cancel TRANSFER
    close TRANSFER

    event listed NAME TYPE SIZE MODE MTIME_NS TARGET, with - for an empty text; MODE is octal
    event begun PATH SIZE
    event progress BYTES
    event finished PATH SIZE DIGEST
    event removed PATH HERE
    event moved FROM TO HERE
    event linked PATH FIRST
    event planned PATH REMOVAL
    event current
    event failed PATH ERRNO HERE
    event ended FILES BYTES FAILED
    event aborted ERRNO
    event lost ERRNO

All other commands answer `ok`, and any command may answer `error ERRNO WORDS`. No word has a blank. Booleans are 0 or
1.
"""
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from check import expect  # noqa: E402
from driver import SOON_MS, Driver  # noqa: E402


# From the kernel's sched.h: the thread ends. It stays in /proc for a moment after it was joined.
PF_EXITING = 4


def lives(task):
    """Whether a thread, a directory below /proc/PID/task, has not begun to end."""
    try:
        stat = (task / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # `flags`, the ninth field of proc_pid_stat(5); the second is a name in brackets.
    return not int(stat.rpartition(")")[2].split()[6]) & PF_EXITING


class Report(NamedTuple):
    files: int
    bytes: int
    failed: dict


class Face:
    """A driver, with a folder that is served and a folder that is filled."""

    def __init__(self, command, place, env):
        self.driver, self.place = Driver(command, place, None, env), Path(place)
        self.source, self.target = self.place / "source", self.place / "target"
        self.source.mkdir()
        self.tell, self.kill = self.driver.tell, self.driver.kill

    def serve(self, *options, kind="folder"):
        """Starts a server, and connects a client. Returns the endpoint."""
        endpoint, = self.tell("serve", "server", f"{kind}=/data@{self.source}", "bind=tcp://127.0.0.1:*", *options)
        self.tell("connect", "client", endpoint)
        return endpoint

    def held(self):
        """How many threads and descriptors the driver has."""
        process = Path("/proc") / str(self.driver.process.pid)
        return [sum(map(lives, (process / "task").iterdir())), len(list((process / "fd").iterdir()))]

    def write(self, **files):
        """Writes files below the source; `__` in a name stands for a slash."""
        for name, content in files.items():
            path = self.source / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def wait(self, transfer="transfer"):
        files, octets, count, *failed = self.tell("wait", transfer, SOON_MS)
        failures = {path: (int(number), here == "1") for path, number, here in (word.rsplit(":", 2) for word in failed)}
        expect(len(failed) == int(count), f"{count} failures: {failed}")
        return Report(int(files), int(octets), failures)

    def run(self, *command):
        """Begins a transfer, and waits for its report."""
        kind, *words = command
        self.tell(kind, "transfer", "client", *words)
        report = self.wait()
        self.tell("close", "transfer")
        return report

    def get(self, *rules, path="/data/"):
        return self.run("get", path, self.target, *rules)

    def events(self, *kinds):
        """The next events, up to one of these kinds."""
        found = []
        while True:
            answer = self.tell("next", "transfer", SOON_MS)
            expect(answer, f"the transfer is over: {found}")
            found.append(answer)
            if answer[0] in kinds:
                return found

    def tree(self, root=None):
        """Files below the target or another folder, and their content."""
        root = root or self.target
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
