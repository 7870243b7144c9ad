"""cases: the cases and their bars. Each takes the Ways, a Plan and a folder of its own, and returns a Result."""

import contextlib
from dataclasses import dataclass

from harness.trial import Failed
from harness.turns import Bar, Result

from . import content, processes, ways
from .result import Turns

MIB = content.MIB
# What the server may hold: for each client a window, and so much beside.
WINDOW_BYTES, BESIDE_BYTES = 2.5e6, 64 * MIB
# The long link, which has half of the round trip in each direction.
LINK_BYTES_A_SECOND, ONE_WAY_MS = 125_000_000, 25


@dataclass(frozen=True)
class Plan:
    """The numbers of rounds, bytes, files and clients of a run."""

    rounds: int = 5
    bytes: int = 1024 * MIB
    files: int = 100_000
    clients: int = 400
    crowd_rounds: int = 3
    crowd_bytes: int = 64 * MIB


QUICK = Plan(1, 32 * MIB, 1000, 20, 1, 8 * MIB)


def took_s(found):
    return found["took_s"]


def faster(turns, above, below):
    """How many times as fast as another way a way is."""
    return turns.ratio(below, above, took_s)


def rate_of(size):
    return lambda found: size / found["took_s"] / 1e9


def discard(how, plan, folder):
    """A file that is received and discarded."""
    source = content.make_file(folder / "source" / "large", plan.bytes)
    turns = Turns(
        plan.rounds,
        {
            "ours": lambda: how.ours(source),
            "ours, again": lambda: how.ours(source, again=True),
            "libzmq, model 3": lambda: how.model("fileio3", source),
            "libzmq, model 1": lambda: how.model("fileio1", source),
            "bare": lambda: how.bare(source),
        },
    )
    result = Result()
    result.figures += [turns.figure("discarded", way, rate_of(plan.bytes), "GB/s") for way in turns.found]
    result.bars += [
        Bar("discarded: over the Guide's model 3", faster(turns, "ours", "libzmq, model 3"), "x", 1),
        Bar("discarded again: over the Guide's model 3", faster(turns, "ours, again", "libzmq, model 3"), "x", None),
        Bar("discarded: over the Guide's model 1", faster(turns, "ours", "libzmq, model 1"), "x", None, 0.8),
        Bar("discarded: over bare", faster(turns, "ours", "bare"), "x", None),
        turns.memory("discarded"),
    ]
    return result


def of_files(how, plan, folder, more=None):
    """A file that becomes a file of the same file system, in several ways."""
    source, to = content.make_file(folder / "source" / "large", plan.bytes), folder / "copy"
    sides = {"ours, tcp": how.ours, "rsync": how.rsync, "cp": how.cp, **(more or {})}
    return Turns(plan.rounds, {name: lambda way=way: ways.copied(way, source, to) for name, way in sides.items()})


def copy(how, plan, folder):
    """From file to file in memory, over tcp and over ipc."""
    more = {
        "ours, again": lambda source, to: how.ours(source, to, again=True),
        "ours, ipc": lambda source, to: how.ours(source, to, "ipc"),
        "bare": how.bare,
    }
    turns = of_files(how, plan, folder, more)
    result, case = Result(), "file to file"
    result.figures += [turns.figure(case, way, rate_of(plan.bytes), "GB/s") for way in turns.found]
    result.bars += [
        Bar(f"{case}: tcp, over rsync", faster(turns, "ours, tcp", "rsync"), "x", 1.5, 2.2),
        Bar(f"{case}, again: tcp, over rsync", faster(turns, "ours, again", "rsync"), "x", None),
        Bar(f"{case}: tcp, over cp", faster(turns, "ours, tcp", "cp"), "x", None, 0.7),
        Bar(f"{case}: tcp, over bare", faster(turns, "ours, tcp", "bare"), "x", None),
        Bar(f"{case}: ipc, over tcp", faster(turns, "ours, ipc", "ours, tcp"), "x", 1.1, 1.5),
        turns.memory(case, "ours, tcp"),
    ]
    return result


def disk(how, plan, folder):
    """From file to file on the disk."""
    turns, result, case = of_files(how, plan, folder), Result(), "file to file, on the disk"
    result.figures += [turns.figure(case, way, rate_of(plan.bytes), "GB/s") for way in turns.found]
    result.bars.append(Bar(f"{case}: tcp, over rsync", faster(turns, "ours, tcp", "rsync"), "x", None))
    return result


def small(how, plan, folder):
    """Many small files, from empty, and again."""
    source, to = content.make_tree(folder / "source", plan.files), folder / "copy"

    def twice(way):
        try:
            empty = way(source, to)
            content.check(source, to)
            again = way(source, to)
            content.check(source, to)
            return {"empty": empty, "again": again}
        finally:
            content.remove(to)

    def rate(found):
        return plan.files / found["took_s"]

    both = Turns(plan.rounds, {"ours": lambda: twice(how.ours), "rsync": lambda: twice(how.rsync)})
    result = Result()
    for part, case, bar, aim in (
        ("empty", "small files, from empty", 1.2, 1.6),
        ("again", "small files, nothing changed", 1, 2),
    ):
        turns = both.part(part)
        result.figures += [turns.figure(case, way, rate, "1/s") for way in turns.found]
        result.bars.append(Bar(f"{case}: over rsync", faster(turns, "ours", "rsync"), "x", bar, aim))
        result.bars.append(turns.memory(case))
    return result


def changed(how, plan, folder):
    """A file of which the receiver has an earlier version."""
    source, to = content.make_file(folder / "source" / "large", plan.bytes), folder / "copy"

    def updated(way):
        return ways.copied(way, source, to, lambda: content.make_earlier_version(source, to))

    def ours():
        found = updated(lambda *places: how.ours(*places, counting=True))
        return {**found, "bytes": found["sender"]["sent_bytes"]}

    def rsync():
        found = updated(how.rsync)
        return {**found, "bytes": ways.received_by_rsync(found)}

    turns, result, case = Turns(plan.rounds, {"ours": ours, "rsync": rsync}), Result(), "ten changed runs"
    result.figures += [turns.figure(case, way, took_s, "s") for way in turns.found]
    shares = {way: turns.spread(way, lambda found: found["bytes"] / plan.bytes * 100) for way in turns.found}
    result.bars += [
        Bar(f"{case}: content that was sent", shares["ours"], "%", 3, most=True),
        Bar(f"{case}: over rsync", faster(turns, "ours", "rsync"), "x", 1),
    ]
    if shares["rsync"]:
        result.notes.append(f"Ten changed runs: rsync's client received {shares['rsync'].median:.2f} % of the file.")
    return result


def crowd(how, plan, folder):
    """Many clients of one file at the same time."""
    source, case = content.make_file(folder / "source" / "large", plan.crowd_bytes), f"{plan.clients} clients"

    def run():
        endpoint = f"tcp://{ways.local()}"
        argv = [how.built["load"], "crowd", endpoint, f"/data/{source.name}", plan.clients]
        found = how.transfer(argv, how.server(source.parent, endpoint))
        if found["receiver"]["bytes"] != plan.clients * plan.crowd_bytes:
            raise Failed("not all bytes have arrived")
        return found

    turns, result = Turns(plan.crowd_rounds, {"ours": run}), Result()
    result.figures.append(turns.figure(case, "ours", rate_of(plan.clients * plan.crowd_bytes), "GB/s"))
    most_mib = (plan.clients * WINDOW_BYTES + BESIDE_BYTES) / MIB
    memory = turns.spread("ours", lambda found: found["sender"]["peak_mib"])
    behind = turns.spread("ours", lambda found: found["receiver"]["slowest"] / max(1, found["receiver"]["median"]))
    result.bars += [
        Bar(f"{case}: memory of the server", memory, "MiB", most_mib, most=True),
        Bar(f"{case}: slowest over the median, at the first end", behind, "x", 0.5),
    ]
    for run in turns.found["ours"].values():
        told = run["receiver"]
        result.notes.append(
            f"{case}: the first ended after {told['first_ns'] / 1e9:.2f} s and the last after "
            f"{told['last_ns'] / 1e9:.2f} s; at the first end the median had {told['median'] / MIB:.1f} MiB and the "
            f"slowest {told['slowest'] / MIB:.1f} MiB."
        )
    return result


@contextlib.contextmanager
def long_link(how, to):
    """Context with the proxy. Yields its address."""
    at, load = ways.local(), how.built["load"]
    argv = [load, "proxy", at, to, ONE_WAY_MS, LINK_BYTES_A_SECOND]
    with processes.running(how.built["launch"], processes.Service(argv, f"tcp://{at}", True), {}):
        yield at


def distant(how, plan, folder):
    """A file over a link with a long round trip."""
    source, case = content.make_file(folder / "source" / "large", plan.bytes), "50 ms round trip"
    load = how.built["load"]

    def ours():
        near = ways.local()
        with long_link(how, near) as at:
            server = how.server(source.parent, f"tcp://{near}")
            return how.transfer(how.get(f"tcp://{at}", source), server)

    def plain():
        near = ways.local()
        with long_link(how, near) as at:
            sender = processes.Service([load, "send", near, plan.bytes], f"tcp://{near}", ends_by_signal=False)
            return how.transfer([load, "drain", at], sender)

    def of_link(found):
        return plan.bytes / found["took_s"] / LINK_BYTES_A_SECOND

    turns, result = Turns(plan.rounds, {"ours": ours, "plain tcp": plain}), Result()
    result.figures += [turns.figure(case, way, of_link, "of 1 Gbit/s") for way in turns.found]
    result.bars.append(Bar(f"{case}: of the link", turns.spread("ours", of_link), "x", 0.85, 0.95))
    return result


IN_MEMORY = {
    "discard": discard,
    "copy": copy,
    "small": small,
    "changed": changed,
    "crowd": crowd,
    "distant": distant,
}
ON_DISK = {"disk": disk}
CASES = {**IN_MEMORY, **ON_DISK}
