"""What the Python examples share: which libzmq this process has loaded, and the line that programs read."""
import zmq

WAIT_MS = 30_000
WAIT_S = WAIT_MS / 1000


def library_file():
    """The file behind zmq in this process, from /proc/self/maps; "-" when there is none."""
    with open("/proc/self/maps") as maps:
        paths = [line.split(None, 5)[5].strip() for line in maps if line.count(" ") > 4 and "/" in line]
    found = [path for path in paths if "/libzmq" in path or "/libpinnace" in path]
    return found[0] if found else "-"


def print_result(**values):
    print("result", *(f"{name}={value}" for name, value in values.items()), flush=True)


def bound(socket, transport, folder=None):
    """Binds to an address of this transport that nobody else has. Returns the address."""
    socket.bind("tcp://127.0.0.1:*" if transport == "tcp" else f"ipc://{folder}/socket")
    return socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
