"""Clients of both builds that share a registry, and talk."""
import ctypes
import time

from check import expect
from players import PATIENCE_S, Received, SOON_MS, heads, in_order, lines, produced, same

# A receiver handles at most so many messages before their acknowledgement is on its disk. If it is killed then, they
# may go to another one.
HANDLED_IN_5_MS = 20


class Client:
    """A client, over its processes."""

    player = None  # of the running process

    def kill(self):
        self.player.kill()

    def close(self):
        self.player.tell("close")
        self.player.kill()


class Sender(Client):
    """A client that produces until it is stopped, over its processes."""

    def __init__(self, company, name, *routes):
        """`routes`: topic and way of each message."""
        self.company, self.name, self.routes = company, name, routes

    def journal(self, topic, way):
        return self.company.place / f"{self.name}.{topic}.{way}.sent"

    def start(self, build, receivers=None):
        """Produces, once it sees so many receivers of each topic."""
        self.player = self.company.start(build, self.name, f"{self.name}'s")
        for topic, way in self.routes:
            if receivers:
                self.player.sees(topic, receivers)
        for topic, way in self.routes:
            journal = self.journal(topic, way)
            self.player.tell("produce", topic, way, journal, max(produced(journal)[1], default=-1) + 1)
        return self

    def advances(self, count):
        """Waits until it has sent so many more messages by each route."""
        for topic, way in self.routes:
            grows(self.journal(topic, way), 2 * count)

    def ends(self):
        """Stops, and waits until nothing is pending."""
        self.player.tell("stop")
        self.player.tell("settle", 0, SOON_MS)
        expect(self.player.tell("errors") == [], f"{self.name}: {self.player.tell('errors')}")


class Receiver(Client):
    """A client that consumes, over its processes."""

    def __init__(self, company, name, topic):
        self.company, self.name, self.topic = company, name, topic
        self.journal = company.place / f"{name}.received"

    def start(self, build):
        self.player = self.company.start(build, self.name, self.topic)
        self.player.tell("consume", self.journal)
        return self

    def received(self):
        return Received(self.journal)


def grows(journal, count):
    wanted, deadline = len(lines(journal)) + count, time.monotonic() + PATIENCE_S
    while len(lines(journal)) < wanted:
        expect(time.monotonic() < deadline, f"{journal.name}: {wanted} lines: not within {PATIENCE_S} s")


def all_has(sender, topic, receiver, missing=frozenset()):
    """A receiver of messages to all has each once and in order; `missing` may be missing."""
    done, begun = produced(sender.journal(topic, "all"))
    found = receiver.received().of(sender.name, topic, "all")
    in_order(found, f"{sender.name} to {receiver.name}")
    lost = sorted(done - set(found) - missing)
    expect(not lost, f"{sender.name} to {receiver.name}: {len(lost)} lost: {lost[:5]}")
    expect(set(found) <= begun, f"{receiver.name}: {sorted(set(found) - begun)[:5]} were not sent")


def one_has(sender, topic, receivers, ordered=True, twice=0):
    """Of the receivers of messages to one, one has each; `twice`: so many may be handled twice, since their receiver
    was killed before the acknowledgement was on its disk."""
    done, begun = produced(sender.journal(topic, "one"))
    found = {receiver.name: receiver.received().of(sender.name, topic, "one") for receiver in receivers}
    for name, numbers in found.items() if ordered else ():
        in_order(numbers, f"{sender.name} to {name}")
    together = sorted(sum(found.values(), []))
    lost = sorted(done - set(together))
    expect(not lost, f"{sender.name}: {len(lost)} lost: {lost[:5]}")
    expect(set(together) <= begun, f"{sorted(set(together) - begun)[:5]} were not sent")
    more = [number for number, next in zip(together, together[1:]) if number == next]
    expect(len(more) <= twice, f"{sender.name}: {len(more)} handled twice: {more[:5]}; {twice} are allowed")
    return found


def talk(company, sending, receiving):
    """A sender of one build, and receivers of several; each is killed and started again twice."""
    workers = [Receiver(company, f"w{at}", "work").start(build) for at, build in enumerate(receiving)]
    subscribers = [Receiver(company, f"p{at}", "news").start(build) for at, build in enumerate(receiving)]
    sender = Sender(company, "s", ("work", "one"), ("news", "all")).start(sending, len(receiving))
    receivers = list(zip([*workers, *subscribers], [*receiving, *receiving]))
    kills = 0
    for _ in range(2):
        for receiver, build in receivers:
            grows(receiver.journal, 20)
            receiver.kill()
            kills += receiver in workers
            sender.advances(5)
            receiver.start(build)
        sender.kill()
        sender.start(sending)
    for receiver, _ in receivers:
        grows(receiver.journal, 20)
    sender.ends()
    for subscriber in subscribers:
        all_has(sender, "news", subscriber)
    one_has(sender, "work", workers, ordered=len(workers) == 1, twice=kills * HANDLED_IN_5_MS)


def an_old_sender_and_a_new_receiver(company):
    talk(company, company.old, [company.new])


def a_new_sender_and_an_old_receiver(company):
    talk(company, company.new, [company.old])


def an_old_sender_and_mixed_receivers(company):
    talk(company, company.old, [company.old, company.new])


def a_new_sender_and_mixed_receivers(company):
    talk(company, company.new, [company.new, company.old])


def mixed_workers_share_in_order(company):
    """Without a kill each worker gets its part in order, and each message is handled once."""
    for name, build in (("so", company.old), ("sn", company.new)):
        workers = [Receiver(company, f"{name}-w{at}", name).start(one)
                   for at, one in enumerate((company.old, company.new, company.old, company.new))]
        sender = Sender(company, name, (name, "one")).start(build, len(workers))
        for worker in workers:
            grows(worker.journal, 30)
        sender.ends()
        one_has(sender, name, workers)


def roll(company, stop):
    """Three clients send to each other, and are replaced one by one. `stop` ends the old process, and returns whether
    other old clients keep for it what they send to all meanwhile."""
    names, built = ("a", "b", "c"), dict.fromkeys("abc", company.old)
    senders = {name: Sender(company, name, ("work", "one"), ("work", "all")) for name in names}
    receivers = {name: Receiver(company, name, "work") for name in names}
    unpromised = {name: {other: set() for other in names} for name in names}

    def start(name):
        receivers[name].start(built[name])
        senders[name].player = player = receivers[name].player
        return player

    def produce(name):
        for topic, way in senders[name].routes:
            journal = senders[name].journal(topic, way)
            senders[name].player.tell("produce", topic, way, journal, max(produced(journal)[1], default=-1) + 1)

    for name in names:
        start(name)
    for name in names:
        senders[name].player.sees("work", 3)
        produce(name)
    for name in names:
        others = [other for other in names if other != name]
        for other in others:
            senders[other].advances(20)
        before = {other: produced(senders[other].journal("work", "all"))[1] for other in others}
        is_kept = stop(receivers[name])
        for other in others:
            senders[other].advances(20)
        built[name] = company.new
        start(name).sees("work", 3)
        for other in others:
            senders[other].player.sees("work", 3)
            sent = produced(senders[other].journal("work", "all"))[1]
            if built[other] is company.old and not is_kept:
                unpromised[name][other] = {number for number in sent if number >= max(before[other], default=0)}
        produce(name)
        for other in names:
            senders[other].advances(20)
    for name in names:
        senders[name].player.tell("stop")
    for name in names:
        receivers[name].player.tell("consume", receivers[name].journal)
    for name in names:
        senders[name].player.tell("settle", 0, SOON_MS)
        expect(senders[name].player.tell("errors") == [], f"{name}: {senders[name].player.tell('errors')}")
    for name in names:
        others = [other for other in names if other != name]
        one_has(senders[name], "work", [receivers[other] for other in others])
        for other in others:
            all_has(senders[name], "work", receivers[other], unpromised[other][name])


def clients_are_replaced_one_by_one(company):
    """In order. An old build does not keep what it sends to all while a client is closed."""
    def stop(receiver):
        receiver.close()
        return False

    roll(company, stop)


def killed_clients_are_replaced_one_by_one(company):
    """What is sent to all meanwhile is kept."""
    def stop(receiver):
        receiver.player.tell("stop")
        receiver.player.tell("settle", 0, SOON_MS)
        receiver.kill()
        return True

    roll(company, stop)


def an_old_client_sees_entries_of_each_kind(company):
    """Of new clients that live, were closed, killed, forgotten, listen on nothing, or are not durable."""
    for name, *options in (("living",), ("closed",), ("killed",), ("gone",), ("left",), ("passing", "durable=0")):
        player = company.start(company.new, name, "news", *options)
        if name == "left":
            player.tell("unsubscribe", "news")
        if name in ("closed", "gone", "left", "passing"):
            player.tell("close")
        if name != "living":
            player.kill()
    new = company.start(company.new, "n", "n's")
    new.tell("forget", "gone")
    old = company.start(company.old, "o", "news")
    old.sees("news", 2)
    old.tell("send", "news", "all", 0, 3, 100)
    living = company.players[0]
    same(living.take(3), heads("o", "news", "all", 0, 3))
    for name in ("closed", "killed"):
        same(company.start(company.new, name, "news").take(3), heads("o", "news", "all", 0, 3))
    for name in ("gone", "left"):
        company.start(company.new, name, "news").has_nothing()
    living.tell("send", "news", "all", 0, 3, 100)
    same(old.take(3), heads("living", "news", "all", 0, 3))
    for player in (old, living, new):
        expect(player.tell("errors") == [], f"{player.tell('errors')}")


def headers_are_left_out_for_an_old_receiver(company):
    """It gets the bodies, and the sender is told by name what the peer lacks."""
    receivers = [company.start(company.old, "older", "news"), company.start(company.new, "present", "news")]
    sender = company.start(company.new, "s", "s's")
    sender.sees("news", 2)
    sender.tell("send", "news", "all", 0, 5, 100, "SYNC", "described")
    sender.tell("send", "news", "all", 5, 5, 2_500_000, "SYNC", "described")
    for receiver in receivers:
        same(receiver.take(10), heads("s", "news", "all", 0, 10))
    sender.tell("settle", 0, SOON_MS)
    said = " ".join(sender.tell("errors"))
    expect("older" in said and "headers" in said and "present" not in said, said)


def certificate(company, name):
    """A new certificate, as `pinnace keygen` writes it: the file, beside which is the secret one, and the key."""
    library, keys = ctypes.CDLL(company.new.library), [ctypes.create_string_buffer(41) for _ in range(2)]
    expect(library.zmq_curve_keypair(*keys) == 0, "zmq_curve_keypair")
    public, secret = (key.value.decode() for key in keys)
    text = f'metadata\ncurve\n    public-key = "{public}"\n'
    (company.place / f"{name}.cert").write_text(text)
    (company.place / f"{name}.cert_secret").write_text(f'{text}    secret-key = "{secret}"\n')
    return company.place / f"{name}.cert", public


def encrypted_clients(company):
    """CURVE, in both directions."""
    for sending, receiving in ((company.old, company.new), (company.new, company.old)):
        (own, key), (other, other_key) = certificate(company, "s"), certificate(company, "r")
        name, topic = f"s{sending.name}", f"t{sending.name}"
        receiver = company.start(receiving, f"r{name}", topic, f"cert={other}", f"trust={name}@{key}")
        sender = company.start(sending, name, f"{name}'s", f"cert={own}", f"trust=r{name}@{other_key}")
        sender.sees(topic, 1)
        for way, first in (("one", 0), ("all", 10)):
            sender.tell("send", topic, way, first, 10, 100_000)
            same(receiver.take(10), heads(name, topic, way, first, 10))
        sender.tell("settle", 0, SOON_MS)


CASES = (
    an_old_sender_and_a_new_receiver,
    a_new_sender_and_an_old_receiver,
    an_old_sender_and_mixed_receivers,
    a_new_sender_and_mixed_receivers,
    mixed_workers_share_in_order,
    clients_are_replaced_one_by_one,
    killed_clients_are_replaced_one_by_one,
    an_old_client_sees_entries_of_each_kind,
    headers_are_left_out_for_an_old_receiver,
    encrypted_clients,
)
