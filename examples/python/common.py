"""Shared by the Python examples: the loaded libzmq, the result line for programs, and unused addresses."""
import zmq

WAIT_MS = 30_000
WAIT_S = WAIT_MS / 1000


def library_file():
    """The file of the loaded libzmq or libpinnace, from /proc/self/maps; "-" if there is none."""
    with open("/proc/self/maps") as maps:
        paths = [line.split(None, 5)[5].strip() for line in maps if line.count(" ") > 4 and "/" in line]
    found = [path for path in paths if "/libzmq" in path or "/libpinnace" in path]
    return found[0] if found else "-"


def print_result(**values):
    print("result", *(f"{name}={value}" for name, value in values.items()), flush=True)


def bound(socket, transport, folder=None):
    """Binds to an unused address of this transport. Returns the address."""
    socket.bind("tcp://127.0.0.1:*" if transport == "tcp" else f"ipc://{folder}/socket")
    return socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
