"""programs: builds the command, the load, the launcher and the Guide's models on the system's libzmq."""

import os
import pathlib
import shutil
import subprocess

from harness.programs import BENCH, ROOT, Trouble, build_crate, compile_single, compiler

HERE = BENCH / "files"
BUILD = ROOT / "target" / "bench-files"
MODELS = ("fileio1", "fileio3")
MEMORY = pathlib.Path("/dev/shm")


def build():
    """Returns the paths of all programs by name."""
    for program in ("rsync", compiler(), "make"):
        if shutil.which(program) is None:
            raise Trouble(f"no {program}")
    cargo = ["cargo", "build", "--release", "--locked", "-p", "pinnace-cli"]
    if subprocess.run(cargo, cwd=ROOT, check=False).returncode:
        raise Trouble("the command does not build")
    return {
        "pinnace": ROOT / "target" / "release" / "pinnace",
        "load": build_crate(HERE / "load", "files-load", BUILD / "load"),
        "launch": compile_single(HERE / "launch.c", BUILD / "launch"),
        **build_models(),
    }


def build_models():
    """Builds the Guide's models with a stage that has our headers and no library, so that they get the system's."""
    out, stage = BUILD / "models", BUILD / "headers"
    stage.mkdir(parents=True, exist_ok=True)
    include = stage / "include"
    include.unlink(missing_ok=True)
    include.symlink_to(ROOT / "crates" / "capi" / "include")
    command = ["make", "--no-print-directory", "-C", str(ROOT / "examples" / "c"), f"STAGE={stage}", f"OUT={out}"]
    done = subprocess.run(
        [*command, *(str(out / model) for model in MODELS)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Trouble(f"{done.stderr}\nneeds a C compiler and libzmq (Debian: gcc, libzmq3-dev)")
    return {model: out / model for model in MODELS}


def disk():
    """The folder on the disk that is measured."""
    where = pathlib.Path(os.environ.get("BENCH_DIR") or BUILD)
    where.mkdir(parents=True, exist_ok=True)
    return where
