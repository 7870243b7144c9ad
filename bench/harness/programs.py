"""programs: builds bench/load.c and bench/limit.c, and finds the two libraries that they run on; and what the other
benches build their programs with."""

import os
import pathlib
import shutil
import socket
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
BUILD = ROOT / "target" / "bench"
STAGE = ROOT / "target" / "stage" / "lib"
SONAME = "libzmq.so.5"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow"]


class Trouble(Exception):
    """A problem that the user must fix; shown without a traceback."""


def compiler():
    return os.environ.get("CC", "cc")


def compile_program(name, sources, extra):
    """Builds target/bench/NAME, unless it is newer than all sources. Returns its path."""
    program = BUILD / name
    depends = [*sources, *(BENCH / "load").glob("*.h")]
    if program.exists() and program.stat().st_mtime > max(source.stat().st_mtime for source in depends):
        return program
    BUILD.mkdir(parents=True, exist_ok=True)
    partial = BUILD / f"{name}.{os.getpid()}"
    command = [compiler(), *FLAGS, "-o", str(partial), *map(str, sources), *extra]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Trouble(
            f"{' '.join(command)}\n{done.stderr}\nbench needs a C compiler and libzmq (Debian: gcc, libzmq3-dev)"
        )
    partial.replace(program)
    return program


def build():
    """Builds the two programs, with our zmq.h if it exists: a program built against it runs on either library."""
    if shutil.which(compiler()) is None:
        raise Trouble(f"no C compiler named {compiler()} (Debian: gcc)")
    ours = ROOT / "crates" / "capi" / "include"
    include = [f"-I{ours}"] if (ours / "zmq.h").exists() else []
    load = compile_program(
        "load",
        [BENCH / "load.c", *sorted((BENCH / "load").glob("*.c"))],
        [*include, "-lzmq", "-lpthread", "-ldl"],
    )
    return load, compile_program("limit", [BENCH / "limit.c"], [])


def library(where):
    """Checks the option for a side: a directory with libzmq.so.5, or "-" for the system's (None)."""
    if where == "-":
        return None
    directory = pathlib.Path(where).resolve()
    if not (directory / SONAME).exists():
        raise Trouble(f"no {SONAME} in {where}: build it first, or name its directory with --ours")
    return directory


def compile_single(source, program, extra=()):
    """Builds a program from one C file. Returns its path."""
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler(), *FLAGS, "-o", str(program), str(source), *extra]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Trouble(f"no C compiler named {compiler()} (Debian: gcc)") from error
    if done.returncode:
        raise Trouble(f"{' '.join(command)}\n{done.stderr}\nneeds a C compiler and libzmq (Debian: gcc, libzmq3-dev)")
    return program


def build_crate(folder, program, target):
    """Builds a program of a Cargo workspace of its own, into the folder `target`. Returns its path."""
    command = ["cargo", "build", "--release", "--locked", "--manifest-path", str(folder / "Cargo.toml")]
    if subprocess.run([*command, "--target-dir", str(target)], check=False).returncode:
        raise Trouble(f"{folder} does not build")
    return target / "release" / program


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
