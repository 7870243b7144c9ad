"""rounds: the calibration, and the order of the runs.

First each case is calibrated: short runs determine how many messages the faster side moves in 1.25 s. Both sides then
always get that number, or with round trips at most as many as the slower side makes in ten seconds. A round visits
every case: it runs ours and libzmq one after the other, in alternating order, then the bare kernel. A few cases get
more than one such pair per round. So a period of other load on the machine affects one pair of many cases, not all
pairs of one, and each ratio is of two runs made within seconds.
"""

from dataclasses import dataclass, field

from . import trial
from .store import MEASURES

SIDES = ("ours", "libzmq")
SHORT = 0.8  # share of the intended duration; a shorter run is repeated
LONG_ENOUGH_S = 0.08  # a calibrating run of this duration is precise enough
BATCHES = (32768, 65536, 131072, 262144, 1048576)
ROUND_TRIPS_S = 10  # enough for a median, even if one side takes a hundred times as long as the other
MEMORY_ROUNDS = 3  # memory does not depend on other load, so few rounds are enough
COUNT_MAX = {
    "pub": 20_000_000,
    "push": 2_000_000_000,
}  # a PUB without a high-water mark queues in memory all messages that its subscriber has not received yet


@dataclass
class Plan:
    """A case with its counts and their maximum. Valid after the calibration."""

    case: object
    count: int | None = None
    limit_count: int | None = None
    most: int = 0
    batch: int = BATCHES[1]
    broken: list = field(default_factory=list)  # why sides gave no result


@dataclass
class Setting:
    """The settings of all runs."""

    load: object
    limit: object
    libraries: dict  # side to directory or None
    pairs: int
    seconds: float
    say: object  # called with a line of progress


def count_for(run_once, guess, seconds, most):
    """The number of messages that take `seconds`, found by runs of growing length. run_once(count) returns seconds."""
    count = guess
    while True:
        took_s = max(run_once(count), 1e-6)
        wanted = count * seconds / took_s
        if took_s >= min(LONG_ENOUGH_S, seconds) or count >= most:
            return max(2, min(int(wanted), most))
        count = min(most, int(count * min(20.0, max(2.0, 1.5 * LONG_ENOUGH_S / took_s))))


def most_of(case):
    return COUNT_MAX[case.pattern] if case.kind != "round" else 5_000_000


def calibrate(plan, setting):
    case = plan.case
    if case.kind == "memory":
        plan.count = case.guess
        return
    counts = []
    for side in SIDES:
        try:
            counts.append(
                count_for(
                    lambda count, side=side: trial.run_load(
                        setting.load, case, count, setting.libraries[side]
                    )["seconds"],
                    case.guess,
                    setting.seconds,
                    most_of(case),
                )
            )
        except trial.Failed as error:
            plan.broken.append(f"{side}: {error}")
    plan.most = most_of(case)
    if case.kind == "round" and counts:
        plan.most = min(plan.most, int(min(counts) * ROUND_TRIPS_S / setting.seconds))
    plan.count = min(max(counts, default=case.guess), plan.most)
    if case.limit is not None:
        try:
            calibrate_limit(plan, setting)
        except trial.Failed as error:
            plan.broken.append(f"limit: {error}")


def calibrate_limit(plan, setting):
    """Finds the fastest batch size on this machine, and its count; otherwise the limit would not be one."""
    case, best = plan.case, 0.0
    guess = max(plan.count // 4, 100)
    for batch in BATCHES if case.limit == "ideal" else BATCHES[:1]:
        result = trial.run_limit(setting.limit, case, guess, batch)
        if result["rate"] > best:
            best, plan.batch = result["rate"], batch
    plan.limit_count = max(100, int(best * setting.seconds))


def row_of(case, pair_index, place, side, result):
    """One run as a row of the CSV."""
    return {
        "case": case.name,
        "round": pair_index,
        "place": place,
        "side": side,
        "version": result.get("version", ""),
        "batch": result.get("batch", ""),
        "messages": result["count"],
        **{key: result.get(key, "") for key in MEASURES},
    }


def run_pair(plan, setting, pair_index):
    """Ours and libzmq, the order alternating by pair; then the bare kernel. Yields rows."""
    order = SIDES if pair_index % 2 == 0 else SIDES[::-1]
    for place, side in enumerate((*order, "limit") if plan.limit_count else order):
        try:
            if side == "limit":
                result = trial.run_limit(setting.limit, plan.case, plan.limit_count, plan.batch)
            else:
                result = trial.run_load(setting.load, plan.case, plan.count, setting.libraries[side])
        except trial.Failed as error:
            plan.broken.append(f"{side}: {error}")
            continue
        yield row_of(plan.case, pair_index, place, side, result)


def lengthen(plan, rows, setting):
    """Raises the counts if a run was too short. Returns whether it did."""

    def factor(sides):
        shortest_s = min(
            (float(row["seconds"]) for row in rows if row["side"] in sides and row["seconds"] != ""),
            default=None,
        )
        short = shortest_s is not None and shortest_s < SHORT * setting.seconds
        return setting.seconds / max(shortest_s, 1e-6) if short else 1.0

    before = plan.count, plan.limit_count
    plan.count = max(plan.count, min(int(plan.count * factor(SIDES)), plan.most))
    if plan.limit_count:
        plan.limit_count = int(plan.limit_count * factor(("limit",)))
    return before != (plan.count, plan.limit_count)


def run_long_pair(plan, setting, pair_index):
    """Runs a pair, and repeats it with more messages, at most twice, if a run was too short."""
    for _ in range(2):
        rows = list(run_pair(plan, setting, pair_index))
        if not lengthen(plan, rows, setting):
            return rows
    return list(run_pair(plan, setting, pair_index))


def measure(chosen, setting):
    """Runs all cases. Returns (rows, broken): the runs, and per case the reasons of failed runs.

    If interrupted, it returns the rows so far.
    """
    plans, rows = [Plan(case) for case in chosen], []
    try:
        for index, plan in enumerate(plans):
            setting.say(f"calibrating {index + 1}/{len(plans)}: {plan.case.name}")
            calibrate(plan, setting)
        for round_index in range(setting.pairs):
            for plan in plans:
                if plan.case.kind == "memory" and round_index >= MEMORY_ROUNDS:
                    continue
                setting.say(f"round {round_index + 1}/{setting.pairs}: {plan.case.name}")
                times = plan.case.pairs_a_round
                for pair_index in range(round_index * times, (round_index + 1) * times):
                    rows.extend(run_long_pair(plan, setting, pair_index))
    except KeyboardInterrupt:
        setting.say("interrupted: what follows is what there is\n")
    return rows, {plan.case.name: plan.broken for plan in plans if plan.broken}
