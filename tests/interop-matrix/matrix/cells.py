"""The rows of the matrix, and how one cell of it is run."""
import tempfile
from pathlib import Path

from .patterns import PATTERNS, messages
from .peer import Broken
from .peers import MECHANISMS, TRANSPORTS

# Keys generated for these tests only.
KEYS = {
    "server-public": "WqLu4oeNd#pN3!0AzIQ2UMyG2Pz$Bjil$]Mnuz>2",
    "server-secret": "EUjy:o$+CKsF$7WTe4ls.8><(Gud<>cc%CKb7KbZ",
    "client-public": "=8]*2e=cutb@lhuyfd6TbLQg5qByR7r+34T[Van^",
    "client-secret": "CL9v!lwfHcZvO$yn$^Xalu2CQ2!2b<+9y3YcJXpj",
}
PLAIN_USER = {"user": "somebody", "password": "correct-horse"}
STRANGER = {
    "NULL": {},
    "PLAIN": {"password": "wrong-donkey"},
    "CURVE": {
        "client-public": "BUQ%f1=w7bUTCa9[cWX8c9?kXY:+]<0Gt0mMCaTS",
        "client-secret": "yZ6@f+fT2#rwL?O*FSW@kxlQoE56CV]X*Lm4r[Fy",
    },
}
SECURE = {"NULL": {}, "PLAIN": PLAIN_USER, "CURVE": KEYS}

# The rows that `make test` runs, in all directions.
EVERY = [pattern.name for pattern in PATTERNS]
SHORT = {
    ("NULL", "tcp"): EVERY,
    ("NULL", "ipc"): ["PUSH/PULL", "PUB/SUB"],
    ("NULL", "ws"): ["PUSH/PULL", "PUB/SUB", "REQ/REP", "DEALER/ROUTER"],
    ("PLAIN", "tcp"): ["REQ/REP", "refusal"],
    ("PLAIN", "ws"): ["REQ/REP"],
    ("CURVE", "tcp"): ["PUB/SUB", "REQ/REP", "refusal"],
    ("CURVE", "ipc"): ["DEALER/ROUTER"],
    ("CURVE", "ws"): ["REQ/REP"],
}


class Row:
    """One pattern, mechanism and transport; the side of the pattern that ours plays, and whether it binds."""

    def __init__(self, pattern, mechanism, transport, side, binds):
        self.pattern, self.mechanism, self.transport = pattern, mechanism, transport
        self.side, self.binds = side, binds

    def words(self):
        role = f"{self.pattern.sides[self.side]} {'binds' if self.binds else 'connects'}"
        return [self.pattern.name, self.mechanism, self.transport, role]

    def is_short(self):
        return self.pattern.name in SHORT.get((self.mechanism, self.transport), ())

    def seen_by(self, side, binds, other):
        return {
            "pattern": self.pattern.name, "kind": self.pattern.sides[side], "binds": binds, "other": other.name,
            "mechanism": self.mechanism, "transport": self.transport,
        }

    def lacking(self, ours, peer):
        """What either side lacks: the lacks that prevent the cell, and those that spare part of it."""
        lacks = [
            *ours.lacking(self.seen_by(self.side, self.binds, peer)),
            *peer.lacking(self.seen_by(1 - self.side, not self.binds, ours)),
        ]
        return [lack for lack in lacks if not lack.spares], [lack for lack in lacks if lack.spares]


def rows():
    return [
        Row(pattern, mechanism, transport, *direction)
        for pattern in PATTERNS
        for mechanism in MECHANISMS
        for transport in TRANSPORTS
        for direction in pattern.directions()
        if not (pattern.stranger and mechanism == "NULL")
    ]


class Runner:
    """Runs cells, one after the other; owns the directory of the Unix sockets."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="interop")
        self.count = 0

    def endpoint(self, transport):
        self.count += 1
        return {
            "tcp": "tcp://127.0.0.1:0",
            "ipc": f"ipc://{Path(self.folder.name) / str(self.count)}",
            "ws": "ws://127.0.0.1:0/matrix",
        }[transport]

    def said(self, spared):
        return messages(spared)

    def look(self, row, ours, peer):
        """Hook: checks both sides after the script, before either closes."""

    def run(self, row, ours, peer, spared):
        """Ours and the peer play the row. The side that binds is the server of the mechanism."""
        sides = (ours, peer) if row.side == 0 else (peer, ours)
        binder, connecter = (ours, peer) if row.binds else (peer, ours)
        for side, player in enumerate(sides):
            role = "server" if player is binder else "client"
            secure = [f"{key}={value}" for key, value in SECURE[row.mechanism].items()]
            if row.pattern.stranger and role == "client":
                secure += [f"{key}={value}" for key, value in STRANGER[row.mechanism].items()]
            settings = [f"mechanism={row.mechanism}", f"role={role}", *secure, *row.pattern.settings(side)]
            player.do("open", row.pattern.sides[side], *settings)
        row.pattern.prepare(sides)
        (actual,) = binder.do("bind", self.endpoint(row.transport))
        said = self.said(spared)
        try:
            connecter.do("connect", actual)
        except Broken:
            if not row.pattern.stranger:
                raise
            said = []  # a peer that blocks in connect reports the refusal at once, and cannot send
        row.pattern.script(*sides, said, spared)
        self.look(row, ours, peer)
        if row.pattern.stranger:
            connecter.stop()  # how a refused socket closes is not tested here
        else:
            connecter.do("close")
        binder.do("close")
