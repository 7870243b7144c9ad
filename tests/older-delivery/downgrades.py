"""A store that this build has written, with what an earlier build cannot keep or does not know."""
import time

from check import expect
from players import PATIENCE_S, SOON_MS, heads, is_refused, same
from traffic import Receiver, Sender, grows, one_has

def is_opened(company, name):
    """The old build opens a store, and its messages arrive."""
    sender = company.start(company.old, name, f"{name}'s")
    receiver = company.start(company.old, "another", "simple")
    sender.sees("simple", 1)
    sender.tell("send", "simple", "all", 0, 5, 100)
    same(receiver.take(5), heads(name, "simple", "all", 0, 5))
    sender.tell("settle", 0, SOON_MS)


def known_and_killed(company, sender, *receivers):
    """Clients that a sender knows, and that are away."""
    players = [company.start(company.new, name, topic) for name, topic in receivers]
    for _, topic in receivers:
        sender.sees(topic, 1)
    for player in players:
        player.kill()


def messages_with_headers(company):
    """The old build would take them for a part of the body."""
    sender = company.start(company.new, "s", "s's")
    known_and_killed(company, sender, ("w", "work"), ("sub", "news"))
    for topic, way in (("work", "one"), ("news", "all")):
        sender.tell("send", topic, way, 0, 5, 100)
        sender.tell("send", topic, way, 5, 5, 100, "SYNC", "described")
        sender.tell("send", topic, way, 10, 1, 2_500_000, "SYNC", "described")
    sender.kill()
    is_refused(company, "s")
    sender = company.start(company.new, "s", "s's")
    for name, topic, way in (("w", "work", "one"), ("sub", "news", "all")):
        same(company.start(company.new, name, topic).take(11), heads("s", topic, way, 0, 11))
    sender.tell("settle", 0, SOON_MS)
    sender.tell("close")
    is_opened(company, "s")


def a_dead_letter_with_headers(company):
    """Of a message that was in memory alone."""
    sender = company.start(company.new, "s", "s's")
    worker = company.start(company.new, "w", "work")
    sender.tell("send", "work", "one", 0, 1, 100, "MEMORY", "described")
    worker.tell("terminate", 1, SOON_MS)
    deadline = time.monotonic() + PATIENCE_S
    while "-:work.dead:1" not in sender.tell("by_peer"):
        expect(time.monotonic() < deadline, "no dead letter")
    sender.kill()
    is_refused(company, "s")


def messages_kept_for_receivers_to_come(company):
    """The old build would give them to the first receiver alone, also what others have had already."""
    sender = company.start(company.new, "s", "s's")
    sender.tell("send", "news", "all", 0, 10, 100)
    sender.kill()
    is_refused(company, "s")
    sender = company.start(company.new, "s", "s's")
    same(company.start(company.new, "sub", "news").take(10), heads("s", "news", "all", 0, 10))
    sender.tell("settle", 0, SOON_MS)
    sender.kill()
    is_refused(company, "s")
    sender = company.start(company.new, "s", "s's")
    sender.tell("clear", "news")
    sender.tell("close")
    is_opened(company, "s")


def an_inheritance(company):
    """The old build would find no message in it."""
    sender = company.start(company.new, "s", "s's")
    sender.tell("send", "news", "all", 0, 10, 100)
    first, second = company.start(company.new, "one", "news"), company.start(company.new, "two", "news")
    sender.sees("news", 2)
    sender.tell("send", "news", "all", 10, 5, 100)
    same(first.take(15), heads("s", "news", "all", 0, 15))
    same(second.take(3), heads("s", "news", "all", 0, 3))
    sender.tell("settle", 12, SOON_MS)
    second.kill()
    sender.tell("close")
    is_refused(company, "s")
    sender = company.start(company.new, "s", "s's")
    same(company.start(company.new, "two", "news").take(12), heads("s", "news", "all", 3, 12))
    sender.tell("settle", 0, SOON_MS)
    sender.tell("clear", "news")
    sender.tell("close")
    is_opened(company, "s")


def counted_deliveries(company):
    """The old build counts from 1 again; the message arrives."""
    sender = company.start(company.new, "s", "s's")
    sender.tell("send", "work", "one", 0, 1, 100)
    for _ in range(2):
        worker = company.start(company.new, "w", "work", "max_deliveries=3")
        worker.tell("hold", 1, SOON_MS)
        worker.kill()
    worker = company.start(company.old, "w", "work", "max_deliveries=3")
    same(worker.take(1), heads("s", "work", "one", 0, 1))
    sender.tell("settle", 0, SOON_MS)


def workers_and_sender_go_back(company):
    """All are killed in the middle of shared work. Nothing is lost; what a worker had handled, and its sender did not
    know of, may be handled once more by another."""
    workers = [Receiver(company, f"w{at}", "work").start(company.new) for at in range(2)]
    sender = Sender(company, "s", ("work", "one")).start(company.new, 2)
    for worker in workers:
        grows(worker.journal, 100)
    for player in (sender, *workers):
        player.kill()
    for worker in workers:
        worker.start(company.old)
    sender.start(company.old, 2)
    for worker in workers:
        grows(worker.journal, 100)
    sender.ends()
    one_has(sender, "work", workers, ordered=False, twice=20 * len(workers))


def workers_and_sender_go_back_in_order(company):
    """All are closed in order: each message is handled once. What the first one had not begun goes to the second, which
    may have handled later ones."""
    workers = [Receiver(company, f"w{at}", "work").start(company.new) for at in range(2)]
    sender = Sender(company, "s", ("work", "one")).start(company.new, 2)
    for worker in workers:
        grows(worker.journal, 100)
    for player in (*workers, sender):
        player.close()
    for worker in workers:
        worker.start(company.old)
    sender.start(company.old, 2)
    for worker in workers:
        grows(worker.journal, 100)
    sender.ends()
    one_has(sender, "work", workers, ordered=False)


CASES = (
    messages_with_headers,
    a_dead_letter_with_headers,
    messages_kept_for_receivers_to_come,
    an_inheritance,
    counted_deliveries,
    workers_and_sender_go_back,
    workers_and_sender_go_back_in_order,
)
