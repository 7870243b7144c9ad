"""Processes with clients of different builds, and the journals that they keep.

A player (player.py) runs on the Python binding and the library of one build. It executes one command a line:

    start NAME TOPIC [KEY=VALUE]...      its client, with options by their names in pinnace_delivery.h; cert=FILE,
                                         trust=NAME@KEY
    send TOPIC WAY FIRST COUNT SIZE [DURABILITY [described]]    numbered messages; WAY: one, or all
    take COUNT TIMEOUT_MS                receives and acknowledges -> SENDER/TOPIC/WAY/NUMBER...
    hold COUNT TIMEOUT_MS                receives -> the same; `release` acknowledges them
    terminate COUNT TIMEOUT_MS           receives, and gives up
    letters COUNT TIMEOUT_MS             receives dead letters -> RECEIVER:DELIVERIES:SENDER/TOPIC/WAY/NUMBER...
    produce TOPIC WAY JOURNAL FIRST      sends on a thread until `stop`
    consume JOURNAL                      receives on a thread until `stop`
    pending, by_peer, settle MOST TIMEOUT_MS, clear TOPIC, subscribe TOPIC, unsubscribe TOPIC, addresses TOPIC, close
    errors                               what was reported to on_error
    state                                these, what is pending, and the statistics of a build that has them

A message whose body is not the one that was sent is `damaged`.
"""
import os
import subprocess
import time
from collections import defaultdict
from pathlib import Path

from check import Failure, expect

HERE = Path(__file__).resolve().parent
PATIENCE_S = 60
SOON_MS = 30_000
LEASE_MS = 1000
GUARD = "needs-a-later-version-of-pinnace"


class Refused(Failure):
    """The client answered with an error."""

    def __init__(self, command, answer):
        super().__init__(f"{command}: {answer}")
        self.number, self.text = int(answer.split()[1]), answer


class Build:
    """A library with its Python binding."""

    def __init__(self, name, library, sources):
        self.name, self.library, self.binding = name, Path(library), Path(sources) / "bindings/python"

    def environment(self):
        # The binding loads libpinnace.so, the library is known by its other name.
        return {**os.environ, "PINNACE_LIBRARY": str(self.library), "PYTHONPATH": str(self.binding)}


class Player:
    """A process with one client."""

    def __init__(self, build, place, registry):
        self.build, self.place, self.registry, self.name = build, Path(place), registry, None
        self.process = subprocess.Popen(
            ["/usr/bin/python3", str(HERE / "player.py")], env=build.environment(), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )

    def tell(self, *words):
        """Executes a command; returns the words of its answer."""
        command = " ".join(str(word) for word in words)
        try:
            print(command, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline().strip()
        expect(answer, f"{self.build.name}: {command}: the process ended with {self.process.poll()}")
        if answer.startswith("error "):
            raise Refused(f"{self.build.name}: {command}", answer)
        return answer.split()[1:]

    def start(self, name, topic, *options):
        """Starts its client. A killed process may hold the name until its lease is over."""
        deadline, self.name = time.monotonic() + PATIENCE_S, name
        while True:
            try:
                self.tell("start", name, topic, f"data_dir={self.place / name}", f"registry={self.registry}",
                          f"lease_ms={LEASE_MS}", "retry_first_ms=1", "retry_most_ms=10", *options)
                return self
            except Refused as refusal:
                if refusal.number != 17 or time.monotonic() > deadline:
                    raise

    def take(self, count):
        return self.tell("take", count, SOON_MS)

    def sees(self, topic, count):
        """Waits until this many clients listen on a topic."""
        deadline = time.monotonic() + PATIENCE_S
        while int(self.tell("addresses", topic)[0]) != count:
            expect(time.monotonic() < deadline, f"{self.build.name}: {count} on {topic}: not within {PATIENCE_S} s")

    def has_nothing(self):
        try:
            found = self.tell("take", 1, 200)
        except Refused as refusal:
            expect(refusal.number == 11, str(refusal))
        else:
            expect(False, f"{self.build.name}: one more: {found}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Company:
    """The players of one case, which end with it."""

    def __init__(self, old, new, place, registry):
        self.old, self.new, self.place, self.registry = old, new, Path(place), registry
        self.players = []

    def player(self, build):
        self.players.append(Player(build, self.place, self.registry))
        return self.players[-1]

    def start(self, build, name, topic, *options):
        return self.player(build).start(name, topic, *options)

    def states(self):
        """What the players that live know, for a failure's report."""
        found = []
        for player in self.players:
            try:
                found.append(f"{player.build.name}, {player.name}: {' '.join(player.tell('state'))}")
            except (Failure, ValueError):
                pass
        return "\n".join(found)

    def end(self):
        for player in self.players:
            if not player.process.stdin.closed:
                player.kill()


def is_refused(company, name):
    """The old build does not open a store, says why, and changes nothing. It may remove a file whose creation a kill
    has interrupted."""
    store = company.place / name
    is_whole = lambda path: path.stat().st_size.bit_count() == 1  # noqa: E731
    before = {path.name: path.read_bytes() for path in store.iterdir() if is_whole(path)}
    try:
        company.start(company.old, name, f"{name}'s")
    except Refused as refusal:
        expect(GUARD in refusal.text, refusal.text)
    else:
        expect(False, f"{name} was opened")
    expect(before == {path.name: path.read_bytes() for path in store.iterdir()}, "it was changed")


def heads(sender, topic, way, first, count):
    return [f"{sender}/{topic}/{way}/{number}" for number in range(first, first + count)]


def same(found, wanted):
    missing, more = [one for one in wanted if one not in found], [one for one in found if one not in wanted]
    expect(found == wanted, f"{len(found)} of {len(wanted)}, missing {missing[:5]}, other {more[:5]}"
           + ("" if missing or more else f", or in another order: {found[:12]}"))


def lines(journal):
    """The whole lines of a journal."""
    text = Path(journal).read_text() if Path(journal).exists() else ""
    return text[:text.rfind("\n") + 1].split("\n")[:-1]


def produced(journal):
    """The numbers that are on the disk, and those that may be."""
    words = [line.split() for line in lines(journal)]
    done = {int(number) for word, number in words if word == "done"}
    return done, {int(number) for word, number in words if word == "begin"}


class Received:
    """What a receiver has noted: the effects, each once by its cursor, as the user's database would have them."""

    def __init__(self, journal):
        self.deliveries, self.order, cursors = 0, defaultdict(list), set()
        for line in lines(journal):
            head, *cursor = line.split()
            self.deliveries += 1
            expect(not head.startswith("damaged"), f"{journal}: {head}")
            if tuple(cursor) not in cursors:
                cursors.add(tuple(cursor))
                sender, topic, way, number = head.split("/")
                self.order[sender, topic, way].append(int(number))

    def of(self, sender, topic, way):
        return self.order.get((sender, topic, way), [])


def in_order(numbers, what):
    wrong = [(one, two) for one, two in zip(numbers, numbers[1:]) if two <= one]
    expect(not wrong, f"{what}: out of order or twice: {wrong[:5]}")
