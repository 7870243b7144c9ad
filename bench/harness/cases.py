"""cases: the workloads, and the bar of each.

A case is one workload with one size over one transport. Its bar is a ratio to the system's libzmq, measured in the
same rounds: of rates (higher is better) or of times (lower is better); or it is a number of bytes.
"""

from dataclasses import dataclass

KIB = 1024

# Duration of a run of the faster side: a second or more; see rounds.py.
SECONDS = 1.25


@dataclass(frozen=True)
class Bar:
    """The value that a case must reach (at_least), and the value that it should reach (aim).

    measure: "rate" (ours over libzmq's, at least), "time" (ours over libzmq's, at most), "limit" (the time, over the
    bare kernel's, at most) or "bytes" (ours, at most).
    aim: a number on the same scale, or "limit": the multiple aim_of_limit of the kernel's limit.
    """

    measure: str
    at_least: float
    aim: float | str | None = None
    aim_of_limit: float = 1.0


@dataclass(frozen=True)
class Case:
    name: str
    group: str  # a heading of the table and of the page
    kind: str  # of bench/load.c: stream, round, fan, turns, memory
    transport: str  # tcp, ipc (through its socket), shm (ipc through shared memory, if the library has it), inproc
    size: int  # bytes of a message
    bar: Bar | None = None
    cpu_at_most: float | None = (
        None  # ratio of CPU seconds per message to libzmq's: with 1.0 less than it, with more at most it
    )
    pattern: str = "push"
    peers: int = 1
    place: str = "free"
    security: str = "null"  # or curve
    spin: str = "auto"  # or never: a waiting thread sleeps at once
    guess: int = 10_000  # messages of the first, short run of the calibration
    pairs_a_round: int = 1  # more if two runs of the same side differ by as much as the bar allows

    @property
    def limit(self):
        """The mode of bench/limit.c for this case, or None."""
        if self.transport == "inproc" or self.security != "null":
            return None
        if self.kind == "stream" and self.pattern == "push":
            return "ideal"
        return "pingpong" if self.kind == "round" else None


CPU_AIM = 0.5


def cpu_bar(size):
    return 1.0 if size <= 16 * KIB else 1.05


def size_name(size):
    """The size in the form of case names: 8, 1032, 16k, 1m."""
    for unit, letter in ((KIB * KIB, "m"), (KIB, "k")):
        if size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def size_label(size):
    """The size for people: 8 B, 16 KiB."""
    for unit, letters in ((KIB * KIB, "MiB"), (KIB, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {letters}"
    return f"{size:,} B"


# transport: (size, at least, aim)
STREAMS = {
    "tcp": (
        (8, 2.0, 4.0),
        (64, 2.0, 4.0),
        (256, 2.2, 3.5),
        (1032, 2.2, 2.8),
        (16 * KIB, 1.3, "limit"),
        (100 * KIB, 1.1, "limit"),
        (KIB * KIB, 1.0, "limit"),
    ),
    "ipc": (
        (8, 2.5, 6.0),
        (64, 3.0, 6.0),
        (256, 3.5, 6.0),
        (1032, 4.0, 5.0),
        (16 * KIB, 3.0, 4.5),
        (100 * KIB, 2.0, 2.7),
        (KIB * KIB, 1.2, "limit"),
    ),
    "shm": (
        (8, 4.0, 10.0),
        (64, 5.0, 10.0),
        (256, 6.0, 11.0),
        (1032, 7.0, 11.0),
        (16 * KIB, 8.0, 14.0),
        (100 * KIB, 5.0, 8.0),
        (KIB * KIB, 3.0, 5.0),
    ),
    "inproc": ((8, 4.0, 10.0), (1032, 2.5, 4.0), (100 * KIB, 1.0, 1.2)),
}
OVER = {"tcp": "tcp", "ipc": "ipc, by its socket", "shm": "ipc, by shared memory", "inproc": "inproc"}


def streams():
    for transport, rows in STREAMS.items():
        for size, at_least, aim in rows:
            yield Case(
                f"{transport}-{size_name(size)}",
                f"push/pull over {OVER[transport]}",
                "stream",
                transport,
                size,
                Bar("rate", at_least, aim),
                cpu_bar(size),
                guess=max(50, 20_000_000 // (size + 1000)),
            )


def secured():
    """CURVE: mostly measures the cipher, which is libsodium's on both sides."""
    for size in (64, KIB, 100 * KIB):
        yield Case(
            f"curve-tcp-{size_name(size)}",
            "push/pull over tcp, secured by CURVE",
            "stream",
            "tcp",
            size,
            Bar("rate", 1.0, 2.0),
            guess=max(50, 5_000_000 // (size + 1000)),
            security="curve",
        )


def spreads():
    for transport in ("tcp", "ipc"):
        yield Case(
            f"pub-{transport}-64",
            "publish and fan-out",
            "stream",
            transport,
            64,
            Bar("rate", 2.0, 4.0),
            cpu_bar(64),
            pattern="pub",
            guess=20_000,
        )
    for pattern, at_least in (("push", 1.5), ("pub", 2.0)):
        yield Case(
            f"fan-{pattern}8",
            "publish and fan-out",
            "fan",
            "tcp",
            64,
            Bar("rate", at_least, 4.0),
            cpu_bar(64),
            pattern=pattern,
            peers=8,
            guess=20_000,
        )
    yield Case(
        "fan-shm-pub8",
        "publish and fan-out",
        "fan",
        "shm",
        1032,
        Bar("rate", 3.0, 6.0),
        pattern="pub",
        peers=8,
        guess=20_000,
    )


def many():
    """Many connections, and messages over each in turn."""
    for transport in ("tcp", "shm"):
        yield Case(
            f"turns-{transport}",
            "10,000 connections, one message each in turn",
            "turns",
            transport,
            64,
            Bar("rate", 2.0, 4.0),
            peers=10_000,
            guess=50_000,
        )


def rounds():
    for prefix, place, bar in (
        ("lat", "split", Bar("time", 0.95, "limit", 1.1)),
        ("lat1", "one", Bar("time", 0.65, 0.4)),
    ):
        for transport in ("tcp", "ipc"):
            yield Case(
                f"{prefix}-{transport}",
                "round trips",
                "round",
                transport,
                8,
                bar,
                cpu_bar(8),
                place=place,
                guess=1000,
            )
    yield Case("lat-inproc", "round trips", "round", "inproc", 8, guess=1000)  # no bar: for information
    for name, place, spin, bar, pairs in (
        ("raw-tcp", "split", "never", Bar("limit", 1.1, "limit", 1.03), 3),
        ("raw-shm", "split", "never", Bar("limit", 1.1, "limit", 1.03), 3),
        ("one-tcp", "one", "never", Bar("time", 0.45, "limit", 1.5), 1),
        ("one-shm", "one", "never", Bar("time", 0.45, "limit", 1.5), 1),
        ("busy-shm", "split", "auto", Bar("time", 0.4, 0.1), 1),
    ):
        yield Case(
            name,
            "round trips",
            "round",
            name.split("-")[1],
            8,
            bar,
            place=place,
            spin=spin,
            guess=1000,
            pairs_a_round=pairs,
        )


def memories():
    for transport in ("tcp", "ipc", "shm"):
        yield Case(
            f"memory-{transport}",
            "an idle connection",
            "memory",
            transport,
            8,
            Bar("bytes", 8 * KIB, 4 * KIB),
            guess=256,
        )


CASES = tuple([*streams(), *secured(), *spreads(), *many(), *rounds(), *memories()])

# For --quick: one of each kind.
QUICK = (
    "tcp-8",
    "tcp-1032",
    "tcp-100k",
    "ipc-64",
    "ipc-1032",
    "shm-1032",
    "shm-100k",
    "inproc-8",
    "curve-tcp-64",
    "pub-tcp-64",
    "fan-push8",
    "lat-tcp",
    "lat1-ipc",
    "busy-shm",
    "memory-tcp",
)


def choose(prefixes):
    """The cases with a name in `prefixes`, or with one of them as its prefix. A full name selects only that case."""
    names = {case.name for case in CASES}
    chosen = []
    for case in CASES:
        if any(
            case.name == prefix or (prefix not in names and case.name.startswith(prefix))
            for prefix in prefixes
        ):
            chosen.append(case)
    return chosen
