"""The peers, and what each of them supports. Missing features are listed only here, each with its reason, so that every
skipped cell has a reason."""
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
INSTALLED = ROOT / "target/interop"
PROGRAMS = ROOT / "tests/interop-matrix/peers"
LIBRARY_PEER = PROGRAMS / "libzmq/peer"
OURS = Path(os.environ.get("PINNACE_LIB", ROOT / "target/stage/lib/libzmq.so.5"))
MECHANISMS, TRANSPORTS = ("NULL", "PLAIN", "CURVE"), ("tcp", "ipc", "ws")


class Lack:
    """A missing feature of a peer: it affects the cells that match all the given words, which are those of Row.seen_by.
    With `spares`, it affects only that kind of message in the cell."""

    def __init__(self, reason, spares=None, **wanted):
        self.reason, self.spares, self.wanted = reason, spares, wanted

    def holds(self, cell):
        return all(cell[word] == value for word, value in self.wanted.items())


class Implementation:
    def __init__(self, name, title, command, lacks=()):
        self.name, self.title, self.command, self.lacks = name, title, command, lacks

    def lacking(self, cell):
        return [lack for lack in self.lacks if lack.holds(cell)]


def is_pinnace(path):
    return b"pinnace_version" in Path(path).read_bytes()


def system_library():
    """The system's libzmq.so.5 that the loader finds, unless it is our own."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    for path in re.findall(r"libzmq\.so\.5 .*=> (\S+)", listing):
        if not is_pinnace(path):
            return Path(path).resolve()
    raise SystemExit("no libzmq.so.5 of the system's; tools/setup test installs it")


def wheel_library():
    found = sorted(INSTALLED.glob("libzmq/pyzmq.libs/libzmq*.so.5*"))
    if not found:
        raise SystemExit("no libzmq 4.3.5 below target/interop; tests/interop-matrix/install brings it")
    return found[0]


def library(name, title, path, lacks=()):
    return Implementation(name, title, [LIBRARY_PEER, path], lacks)


def ours(path):
    """The library under test. Ours supports everything; for a libzmq in its place the lacks are known."""
    if is_pinnace(path):
        return library("ours", "ours", path)
    same = path.read_bytes() == system_library().read_bytes()
    return library("ours", "ours", path, LIBZMQ_4_3_4 if same else NO_WEBSOCKETS)


def no(word, values, reason):
    return [Lack(reason, **{word: value}) for value in values]


NO_WEBSOCKETS = no("transport", ["ws"], "pyzmq's wheels carry a libzmq without WebSockets")
UNTOLD = "libzmq 4.3.4 does not say inside CURVE over WebSockets that what it sends is a subscription"
LIBZMQ_4_3_4 = [
    Lack(UNTOLD, kind="SUB", mechanism="CURVE", transport="ws"),
    Lack(UNTOLD, kind="XSUB", mechanism="CURVE", transport="ws", binds=True),
    Lack(
        "libzmq 4.3.4 offers ZWS2.0/NULL first, and jszmq agrees to whatever is first without knowing it",
        mechanism="NULL", transport="ws", binds=False, other="jszmq",
    ),
]
JEROMQ = [
    *no("transport", ["ws"], "JeroMQ has no WebSockets"),
    *no("transport", ["ipc"], "JeroMQ's ipc is a TCP port of its own reckoning, no Unix socket"),
]
GO = [
    *no("transport", ["ws"], "go-zeromq has no WebSockets"),
    *no("mechanism", ["CURVE"], "go-zeromq has no CURVE"),
    Lack("go-zeromq's PLAIN server lets everybody in", pattern="refusal", binds=True),
    Lack("go-zeromq's REP takes the last empty frame of a request for the delimiter", "empty frames", kind="REP"),
    Lack("go-zeromq's XPUB keeps subscriptions from its user", "subscriptions", kind="XPUB"),
]
RUST = [
    *no("transport", ["ws"], "zeromq.rs has no WebSockets"),
    *no("mechanism", ["PLAIN", "CURVE"], "zeromq.rs has NULL alone"),
    *no("kind", ["PAIR"], "zeromq.rs has no PAIR"),
]
JSZMQ = [
    *no("transport", ["tcp", "ipc"], "jszmq has WebSockets alone"),
    *no("mechanism", ["PLAIN", "CURVE"], "jszmq has NULL alone"),
    Lack("jszmq's XPUB sends a subscriber everything once one topic has matched", "topics", kind="XPUB"),
]


def everybody():
    classes = f"{INSTALLED}/jeromq/*:{INSTALLED}/jeromq/classes"
    node = ["env", f"NODE_PATH={INSTALLED}/jszmq/node_modules", "node", "--no-deprecation", PROGRAMS / "jszmq/peer.js"]
    return [
        library("libzmq-4.3.4", "libzmq 4.3.4", system_library(), LIBZMQ_4_3_4),
        library("libzmq-4.3.5", "libzmq 4.3.5", wheel_library(), NO_WEBSOCKETS),
        Implementation("jeromq", "JeroMQ 0.6.0", ["java", "-cp", classes, "Peer"], JEROMQ),
        Implementation("zmq4-go", "go-zeromq 0.17.0", [INSTALLED / "zmq4-go"], GO),
        Implementation("zeromq-rs", "zeromq.rs 0.7.0", [INSTALLED / "zeromq-rs/debug/interop-peer"], RUST),
        Implementation("jszmq", "jszmq 0.1.2", node, JSZMQ),
    ]
