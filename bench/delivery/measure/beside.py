"""beside: this build and that of another checkout, in turn, in the rows that a change of log or peer loop moves."""

import statistics

from harness.turns import Bar, Result

from .cases import NOTHING, SYNC
from .result import Turns
from .trials import cycle_rate, numbers

# A row is missed if it is worse than the other build's by more than this.
MARGIN = 0.1


def sides(runner, load, words):
    """The same load with both builds."""
    return {
        "ours": lambda: runner.ours(load, **words),
        "beside": lambda: runner.ours(load, side="beside", **words),
    }


def rates(runner, plan):
    """Cycles of messages of 1 KiB, in memory and on the disk."""
    result, messages = Result(), plan.cycle * plan.cycles

    def rate(found):
        return cycle_rate(found, plan.cycle)

    for mode, what in (("memory", NOTHING), ("sync", SYNC)):
        words = {"size": 1024, "count": plan.cycle, "cycles": plan.cycles, "pause_ms": 100, "mode": mode}
        turns = Turns(plan.rounds, sides(runner, "cycles", words))
        for side in turns.found:
            result.figures.append(turns.figure(mode, side, what, rate, "1/s", messages))
        ratio = turns.ratio("ours", "beside", rate)
        result.bars.append(Bar(f"{mode}, over the other build", ratio, "x", 1 - MARGIN, 1))
    return result


def single(runner, plan):
    """One sender that waits for each message of 1 KiB."""
    words = {"size": 1024, "blocks": plan.blocks, "block": plan.block, "receiver": "no"}
    turns, result = Turns(plan.rounds, sides(runner, "single", words)), Result()

    def time_us(found):
        return statistics.median(numbers(found["ours_ns"])) / plan.block / 1e3

    for side in turns.found:
        result.figures.append(turns.figure("one at a time", side, SYNC, time_us, "µs"))
    ratio = turns.ratio("ours", "beside", time_us)
    result.bars.append(Bar("one at a time, over the other build", ratio, "x", 1 + MARGIN, 1, most=True))
    return result


def results(runner, plan):
    return [rates(runner, plan), single(runner, plan)]
