"""programs: builds the loads, and starts a separate Redis for each run of liner."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from harness.programs import BENCH, ROOT, Trouble, build_crate, compile_single, free_port

HERE = BENCH / "delivery"
BUILD = ROOT / "target" / "bench-delivery"
PATIENCE_S = 10


def cargo(name, program, here=HERE, target=None):
    """Builds the program of one of the two workspaces, of this checkout or of another. Returns its path."""
    return build_crate(here / name, program, BUILD / (target or name))


def build_beside(checkout):
    """Builds the load of this checkout and that of another one. Returns their paths by side."""
    other = pathlib.Path(checkout).resolve() / "bench" / "delivery"
    if not other.is_dir():
        raise Trouble(f"{checkout} is not a checkout of Pinnace")
    return {
        "ours": cargo("ours", "delivery-load"),
        "beside": cargo("ours", "delivery-load", other, "beside"),
    }


def build():
    """Builds the three programs. Returns their paths by side."""
    if shutil.which("redis-server") is None:
        raise Trouble("no redis-server (Debian: redis-server)")
    programs = {"ours": cargo("ours", "delivery-load"), "liner": cargo("liner", "liner-load")}
    plain = compile_single(HERE / "plain.c", BUILD / "plain", ["-lzmq"])
    return {**programs, "libzmq": plain}


def place():
    """The directory for the logs: it must be on the disk to be measured."""
    where = pathlib.Path(os.environ.get("BENCH_DIR") or BUILD)
    where.mkdir(parents=True, exist_ok=True)
    return where


@contextlib.contextmanager
def redis():
    """Context with a Redis that stores nothing on the disk. Yields its URL."""
    with tempfile.TemporaryDirectory(prefix="bench-redis") as directory:
        port = free_port()
        words = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": directory}
        argv = ["redis-server", *(part for key, value in words.items() for part in (f"--{key}", str(value)))]
        server = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        try:
            wait_for(server, port)
            yield f"redis://127.0.0.1:{port}/"
        finally:
            server.terminate()
            server.wait()


def wait_for(server, port):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise Trouble("redis-server does not start") from error
            time.sleep(0.01)
