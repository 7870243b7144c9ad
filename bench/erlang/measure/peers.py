"""peers: the programs and nodes of a run. They print `bound ENDPOINT`, `begin` and `end VALUE`."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from harness import machine, programs, trial

ROOT = programs.ROOT
LOAD = programs.BENCH / "erlang" / "load"
BUILD = ROOT / "target" / "bench-erlang"
PORT = ROOT / "target" / "release" / "pinnace-port"
EBIN = ROOT / "bindings/erlang/_build/default/lib/pinnace/ebin"
ERL = ["erl", "-noshell", "-noinput", "+sbwt", "none", "+sbwtdio", "none", "-pa", str(BUILD), str(EBIN)]
MAIN = ["-s", "bench_peer", "main", "-extra"]
ANY = "tcp://127.0.0.1:*"
LIMIT_S = 60


def done(command, cwd=None):
    finished = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise programs.Trouble(f"{' '.join(map(str, command))}\n{finished.stdout}{finished.stderr}")
    return finished.stdout


def build():
    """Builds the programs and the application. Returns their folder."""
    for program in ("erl", "rebar3"):
        if not shutil.which(program):
            raise programs.Trouble(f"{program} is missing (Debian: erlang-base, erlang-dev, rebar3)")
    for file in (PORT, programs.STAGE / programs.SONAME):
        if not file.exists():
            raise programs.Trouble(f"no {file.relative_to(ROOT)}: make build")
    BUILD.mkdir(parents=True, exist_ok=True)
    compiler, include = [programs.compiler(), *programs.FLAGS], f"-I{ROOT / 'target/stage/include'}"
    done([*compiler, include, "-o", BUILD / "peer", LOAD / "peer.c", f"-L{programs.STAGE}", "-lzmq"])
    done([*compiler, "-o", BUILD / "bare", LOAD / "bare.c"])
    root = done(["erl", "-noshell", "-eval", "io:format(code:root_dir()), halt()."])
    shared = ["-shared", "-fPIC", f"-I{root}/usr/include"]
    done([*compiler, *shared, "-o", BUILD / "zmq_nif.so", LOAD / "zmq_nif.c", "-lzmq"])
    done(["erlc", "-o", BUILD, *LOAD.glob("*.erl")])
    done(["rebar3", "compile"], ROOT / "bindings/erlang")
    return BUILD


def facts():
    release = done(["erl", "-noshell", "-eval", "io:format(erlang:system_info(system_version)), halt()."]).strip()
    found = {
        "processor": machine.cpu_facts(),
        "processors": f"{len(os.sched_getaffinity(0))}; virtual machine: {machine.virtual()}",
        "memory": machine.memory(),
        "kernel": f"{os.uname().sysname} {os.uname().release.split('-')[0]}",
        "system": machine.system(),
        "Erlang": f"{release}; without busy waiting (`+sbwt none`)",
        "ours": f"Pinnace, commit {machine.commit() or 'unknown'}",
        "libzmq": machine.package(),
    }
    return {key: value for key, value in found.items() if value}


def below(pid):
    """A process and all that it has started."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
                found += [int(word) for word in (task / "children").read_text().split()]
    return found


def cpu_s(pids):
    """CPU seconds of processes so far: proc_pid_stat(5), fields 14 and 15."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Peer:
    """A program in C, or a node."""

    def __init__(self, command, library):
        env = {**os.environ, "PINNACE_PORT": str(PORT)}
        if library:
            env["LD_LIBRARY_PATH"] = str(programs.STAGE)
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(
            [str(word) for word in command], env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True,
            start_new_session=True
        )

    def line(self, wanted):
        """The rest of the next line, which begins with this word."""
        text = self.child.stdout.readline().strip()
        first, _, rest = text.partition(" ")
        if first != wanted:
            raise trial.Failed(f"{wanted} was awaited: {text}{self.child.stdout.read(2000)}")
        return rest

    def cpu_s(self):
        return cpu_s(below(self.child.pid))

    def end(self):
        """Ends the peer. Returns the CPU seconds of its child processes, which getrusage(2) does not count for us."""
        unwaited = cpu_s(below(self.child.pid)[1:])
        trial.end_group(self.child)
        self.child.stdout.close()
        return unwaited


class Peers:
    def __init__(self, folder, milliseconds):
        self.folder, self.milliseconds, self.unwaited = folder, milliseconds, 0.0

    @contextlib.contextmanager
    def peer(self, *words):
        """A peer: its language, and its arguments."""
        language, *arguments = words
        command = [self.folder / "peer", *arguments] if language == "C" else [*ERL, *MAIN, *arguments]
        peer = Peer(command, language == "C")
        try:
            yield peer
        finally:
            self.unwaited += peer.end()

    @staticmethod
    def arguments(side, way):
        """The first arguments of a side, `send` or `recv`, in one of its ways."""
        return ("C", side) if way == "C" else ("Erlang", side, way)

    def stream(self, sender, receiver, octets):
        """Messages a second, and the CPU seconds of both sides."""
        with self.peer(*self.arguments("recv", receiver), ANY, self.milliseconds) as taker:
            endpoint = taker.line("bound")
            with self.peer(*self.arguments("send", sender), endpoint, octets) as giver:
                return self.measured(taker, giver)

    def bare(self, way, octets):
        """The same of a port that only writes."""
        messages = max(61440 // (octets + 4), 1)
        with self.peer("Erlang", "bare", way, self.folder / "bare", messages, octets, self.milliseconds) as node:
            return self.measured(node, None)

    @staticmethod
    def measured(taker, giver):
        sides = [side for side in (giver, taker) if side]
        taker.line("begin")
        before = [side.cpu_s() for side in sides]
        rate = int(taker.line("end"))
        return {"rate": rate, "cpu": [side.cpu_s() - start for side, start in zip(sides, before)]}

    def trips(self, count):
        """The median round trip between two nodes in microseconds."""
        with self.peer("Erlang", "answer", ANY) as answerer:
            with self.peer("Erlang", "ask", answerer.line("bound"), count) as asker:
                return {"rate": int(asker.line("end")), "cpu": []}

    def bare_trips(self, count):
        """The same over ports in C that only pass on, with two pipes between them."""
        with tempfile.TemporaryDirectory() as folder:
            there, back = (os.path.join(folder, name) for name in ("there", "back"))
            os.mkfifo(there)
            os.mkfifo(back)
            with self.peer("Erlang", "answer_bare", self.folder / "bare", there, back) as answerer:
                answerer.line("bound")
                with self.peer("Erlang", "ask_bare", self.folder / "bare", back, there, count) as asker:
                    return {"rate": int(asker.line("end")), "cpu": []}
