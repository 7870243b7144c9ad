"""cases: the cases and their bars. Each takes a Runner and a Plan, and returns a Result."""

from dataclasses import dataclass, replace

from harness.figures import Spread
from harness.turns import Bar, Result

from . import trials
from .result import Figure, Turns
from .trials import cycle_rate, numbers

NOTHING = "nothing / nothing"
# The sender syncs every message before its ticket resolves; the receiver its cursor before the sender forgets messages.
SYNC = "every message / the cursor"
MIB = 1 << 20


@dataclass(frozen=True)
class Plan:
    """The numbers of rounds, messages and cycles of a run."""

    rounds: int = 5
    long_rounds: int = 3
    cycle: int = 10_000
    cycles: int = 12
    pause_ms: int = 1000
    many: int = 2_000_000
    liner_limit_s: int = 30
    blocks: int = 20
    block: int = 250
    pending: int = 1_000_000
    queued: int = 10_000_000


QUICK = Plan(1, 1, 1000, 3, 50, 20_000, 5, 2, 20, 20_000, 100_000)


def cycles(runner, plan):
    """Cycles of 10,000 messages of 1 KiB, with the same pause after each as in liner's own benchmark."""
    words = {"size": 1024, "count": plan.cycle, "cycles": plan.cycles, "pause_ms": plan.pause_ms}
    turns = Turns(
        plan.rounds,
        {
            "ours, memory": lambda: runner.ours("cycles", mode="memory", **words),
            "ours, sync": lambda: runner.ours("cycles", mode="sync", **words),
            "liner": lambda: runner.liner("cycles", **words),
            "ours, PUSH/PULL": lambda: runner.ours("plain", **words),
            "libzmq, PUSH/PULL": lambda: runner.libzmq(1024, plan.cycle, plan.cycles, plan.pause_ms),
        },
    )
    durable = {"ours, sync": SYNC}

    def rate(found):
        return cycle_rate(found, plan.cycle)

    result, messages = Result(), plan.cycle * plan.cycles
    for side in turns.found:
        what = durable.get(side, NOTHING)
        result.figures.append(turns.figure("cycles", side, what, rate, "1/s", messages))
    for side, bar, aim in (("ours, memory", 2, 4), ("ours, sync", 1, 2)):
        result.bars.append(Bar(f"cycles: {side}, over liner", turns.ratio(side, "liner", rate), "x", bar, aim))
    stalled = sum(turns.of("liner", lambda found: found["stalled"]).values())
    if stalled:
        result.notes.append(
            f"{stalled} of liner's {plan.rounds * plan.cycles} cycles did not end within 3 s: what is left of one "
            "comes with the next that is sent. They are left out here."
        )
    return result


def many(runner, plan):
    """2,000,000 messages of 1 KiB without pauses."""
    words = {"size": 1024, "count": plan.many}
    turns = Turns(
        plan.long_rounds,
        {
            "ours, sync": lambda: runner.ours("run", mode="sync", **words),
            "liner": lambda: runner.liner("run", limit_s=plan.liner_limit_s, **words),
        },
    )
    result = Result()

    def rate(found):
        times = numbers(found["tenths_ns"])
        return plan.many / 10 * len(times) / times[-1] * 1e9 if times else 0

    def last_over_first(found):
        found = trials.tenths(found, plan.many)
        return found[-1] / found[0] if len(found) == 10 else 0

    for side, what in (("ours, sync", SYNC), ("liner", NOTHING)):
        result.figures.append(turns.figure("in one go", side, what, rate, "1/s", plan.many))
        for number, found in turns.found[side].items():
            rates = " ".join(f"{value / 1e3:.0f}" for value in trials.tenths(found, plan.many))
            note = f"In one go, {side}, run {number + 1}, thousands a second by tenths: {rates}"
            if "got" in found and found["got"] < plan.many:
                note += f"; stopped after {plan.liner_limit_s} s with {found['got']:,} of {plan.many:,}"
            result.notes.append(note + ".")
    slow = turns.spread("ours, sync", last_over_first)
    result.bars.append(Bar("in one go: last tenth over the first", slow, "x", 0.8, 1))
    return result


def single(runner, plan):
    """One sender that waits for each message of 1 KiB, in turns with the disk alone."""
    result, words = Result(), {"size": 1024, "blocks": plan.blocks, "block": plan.block}
    for receiver, name in (("no", "nobody receives"), ("yes", "a receiver is up")):
        turns = Turns(plan.rounds, {"ours": lambda: runner.ours("single", receiver=receiver, **words)})
        spreads = {}
        for side, what in (("ours", SYNC), ("disk", "the same bytes")):
            spreads[side] = Spread.of(
                turn / plan.block / 1e3
                for found in turns.found["ours"].values()
                for turn in numbers(found[f"{side}_ns"])
            )
            cpu = turns.spread("ours", lambda found: found[f"{side}_cpu_ns"] / plan.blocks / plan.block / 1e3)
            why = turns.why.get("ours", "")
            result.figures.append(Figure(f"one at a time, {name}", side, what, spreads[side], "µs", cpu, why))
        if spreads["ours"]:
            ratio = Spread.of(ours / disk for ours, disk in zip(*(spread.values for spread in spreads.values())))
        else:
            ratio = None
        bar = Bar("one at a time, over write and fdatasync", ratio, "x", 1.3, 1.1, most=True)
        if receiver == "no":
            result.bars.append(bar)
        elif ratio:
            result.notes.append(
                f"One at a time with a receiver that is up, and syncs on the same disk: {ratio.median:.2f}x."
            )
    return result


def small(runner, plan):
    """2,000,000 messages of 64 bytes, compared with bare writes to the disk of the same size as the log's syncs."""
    found_sync = {}

    def ours():
        found = runner.ours("run", look=trials.syncs, size=64, count=plan.many, mode="sync")
        found_sync["bytes"] = found.get("sync_bytes", 1 << 16)
        return found

    def disk():
        size = found_sync.get("bytes", 1 << 16)
        return {**runner.ours("disk", bytes=size, writes=max(20, min(2000, (256 * MIB) // size))), "size": size}

    # A record of a batch: its header, the message's with one destination, and 64 bytes, rounded up to a multiple of 8.
    record = (8 + 16 + 12 + 64 + 7) // 8 * 8
    turns, result = Turns(plan.rounds, {"ours, sync": ours, "disk": disk}), Result()

    def rate(found):
        return plan.many / found["took_ns"] * 1e9

    def disk_rate(found):
        return found["bytes"] / record / found["took_ns"] * 1e9

    result.figures.append(turns.figure("64 B", "ours, sync", SYNC, rate, "1/s", plan.many))
    result.figures.append(turns.figure("64 B", "disk", "the same bytes, in such writes", disk_rate, "1/s"))
    result.bars.append(Bar("64 B", turns.spread("ours, sync", rate), "1/s", 5e5, 1e6))
    sizes = turns.spread("ours, sync", lambda found: found.get("sync_bytes", 0))
    speed = turns.spread("disk", lambda found: found["bytes"] / found["took_ns"] * 1e3)
    if sizes and speed:
        result.notes.append(
            f"64 B: the log took {sizes.median / 1024:.0f} KiB with each sync (median of the runs' medians); in writes "
            f"of that size, each with its fdatasync, this disk takes {speed.median:.0f} MB/s."
        )
    return result


def shared(runner, plan):
    """2,000,000 messages of 1 KiB to one, which one or three workers share that do nothing with them."""
    words = {"size": 1024, "count": plan.many, "mode": "sync"}
    sides = {"one worker": 1, "three workers": 3}
    turns = Turns(
        plan.long_rounds,
        {side: lambda count=count: runner.ours("shared", workers=count, **words) for side, count in sides.items()},
    )
    result = Result()

    def rate(found):
        return plan.many / found["took_ns"] * 1e9

    for side in sides:
        result.figures.append(turns.figure("work queue", side, SYNC, rate, "1/s", plan.many))
    ratio = turns.ratio("three workers", "one worker", rate)
    result.bars.append(Bar("work queue: three workers, over one", ratio, "x", 0.75, 0.85))
    return result


def recovery(runner, plan):
    """1,000,000 messages are pending for an absent receiver when their sender is killed."""
    result = Result()
    kinds = {
        "64 B": {"size": 64, "cold": "no"},
        "1 KiB": {"size": 1024, "cold": "no"},
        "1 KiB, nothing cached": {"size": 1024, "cold": "yes"},
    }
    turns = Turns(
        plan.rounds,
        {
            name: lambda words=words: runner.ours("recovery", count=plan.pending, **words)
            for name, words in kinds.items()
        },
    )
    for name in kinds:
        case = f"recovery, {name}"
        for side, key in (("store is open", "open_ns"), ("first handled", "first_ns"), ("last handled", "last_ns")):
            figure = turns.figure(case, name, SYNC, lambda found: found[key] / 1e9, "s")
            result.figures.append(replace(figure, side=side))
        first = turns.spread(name, lambda found: found["first_ns"] / 1e9)
        result.bars.append(Bar(f"{case}: first delivery", first, "s", 2, 0.5, most=True))
    return result


def memory(runner, plan):
    """10,000,000 messages of 1 KiB are pending for a receiver that is stopped."""
    turns, result = Turns(1, {"ours": lambda: runner.ours("queue", size=1024, count=plan.queued)}), Result()

    def over_base(found):
        return (found["most_kib"] - found["base_kib"]) / 1024

    result.figures.append(turns.figure("memory", "ours", SYNC, over_base, "MiB", plan.queued))
    result.bars.append(Bar("memory: most, over the base", turns.spread("ours", over_base), "MiB", 64, 16, most=True))
    for found in turns.found["ours"].values():
        result.notes.append(
            f"Memory: {found['pending']:,} messages pending, {found['disk_bytes'] / 1e9:.1f} GB of log, accepted at "
            f"{plan.queued / found['accepted_ns'] * 1e6:.0f} k/s; private resident memory "
            f"{found['base_kib'] / 1024:.1f} MiB before, {found['most_kib'] / 1024:.1f} MiB at most, "
            f"{found['last_kib'] / 1024:.1f} MiB at the end."
        )
    return result


CASES = {
    "cycles": cycles,
    "many": many,
    "single": single,
    "small": small,
    "shared": shared,
    "recovery": recovery,
    "memory": memory,
}
