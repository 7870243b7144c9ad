"""Registries for the suite: by name, how to create one for a behaviour. A new kind needs one line here."""
import socket
import subprocess
import time
from contextlib import contextmanager

from check import expect
from driver import PATIENCE_S


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


@contextmanager
def redis(place):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not answers(port):
            expect(server.poll() is None, f"redis-server ended with {server.returncode}")
            expect(time.monotonic() < deadline, "redis-server does not answer")
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@contextmanager
def file(url, place):
    yield url.format(place=place)


REGISTRIES = {
    "dir": lambda place: file("dir://{place}/registry", place),
    "sqlite": lambda place: file("sqlite://{place}/registry.db", place),
    "redis": redis,
}
