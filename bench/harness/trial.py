"""trial: one run of one program, as a dictionary of the pairs that it printed.

A run that fails, prints something else, takes too long or loads another library than the intended one is an error,
never a number.
"""

import os
import pathlib
import signal
import subprocess
import tempfile

TIME_LIMIT_S = 120


class Failed(Exception):
    """A run gave no result: a message was wrong, the library refused something, or it hung."""


def run(argv, library=None, limit_s=TIME_LIMIT_S, settings=None):
    """Runs argv on the library in this directory (None: the system's) and returns its line of key=value pairs.

    settings: further environment variables.
    """
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    if library is not None:
        environment["LD_LIBRARY_PATH"] = str(library)
    process = subprocess.Popen(
        argv,
        env={**environment, **(settings or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        end_group(process)
        process.communicate()
        raise Failed(f"no end after {limit_s} s") from error
    finally:
        end_group(process)
    if process.returncode != 0:
        raise Failed(err.strip().splitlines()[-1] if err.strip() else f"exit status {process.returncode}")
    return parse(out)


def end_group(process):
    """Kills the processes that are left of the run."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def parse(out):
    """The pairs of the last line. Values that look like numbers become numbers."""
    lines = out.strip().splitlines()
    if not lines or "=" not in lines[-1]:
        raise Failed(f"no line of result but {out!r}")
    return {key: number(value) for key, value in (pair.split("=", 1) for pair in lines[-1].split())}


def number(text):
    for make in (int, float):
        try:
            return make(text)
        except ValueError:
            pass
    return text


def load_argv(program, case, count, directory, **extra):
    ipc = f"ipc://{directory}/s"
    endpoint = {"tcp": "tcp://127.0.0.1:*", "ipc": ipc, "shm": ipc, "inproc": "inproc://s"}[case.transport]
    options = {
        "pattern": case.pattern,
        "endpoint": endpoint,
        "size": case.size,
        "count": count,
        "peers": case.peers,
        "place": case.place,
        "security": case.security,
        "spin": case.spin,
        **extra,
    }
    return [str(program), case.kind, *(f"{key}={value}" for key, value in options.items())]


def run_load(program, case, count, library, **extra):
    """One run of the case. Failed: another library than `library` was loaded."""
    with tempfile.TemporaryDirectory(prefix="bench") as directory:
        settings = {"PINNACE_SHARED_MEMORY": "1" if case.transport == "shm" else "0"}
        result = run(load_argv(program, case, count, directory, **extra), library, settings=settings)
    loaded = pathlib.Path(str(result["lib"])).parent.resolve()
    if library is not None and loaded != library:
        raise Failed("another library than the one meant was loaded")
    return result


def run_limit(program, case, count, batch):
    """The run of the bare kernel for the case."""
    transport = "unix" if case.transport in ("ipc", "shm") else case.transport
    return run(
        [
            str(program),
            case.limit,
            transport,
            f"size={case.size}",
            f"count={count}",
            f"batch={batch}",
            f"place={case.place}",
        ]
    )
