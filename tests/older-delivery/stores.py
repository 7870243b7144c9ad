"""A store that one build has written and another opens."""
from check import expect
from players import Received, SOON_MS, heads, in_order, is_refused, same

LARGE = 2_500_000  # bytes of a message of three parts


def fill(company, build):
    """A sender's store with pending messages of each kind, and its receivers' stores. All processes are killed."""
    sender, worker, subscriber = company.player(build), company.player(build), company.player(build)
    sender.start("s", "s's")
    worker.start("w", "work")
    subscriber.start("sub", "news")
    sender.sees("work", 1)
    sender.sees("news", 1)
    # Progress of both receivers, and dead letters.
    sender.tell("send", "work", "one", 0, 20, 100)
    same(worker.take(15), heads("s", "work", "one", 0, 15))
    worker.tell("terminate", 5, SOON_MS)
    sender.tell("send", "news", "all", 0, 10, 100)
    same(subscriber.take(10), heads("s", "news", "all", 0, 10))
    sender.tell("settle", 5, SOON_MS)
    worker.kill()
    subscriber.kill()
    sender.sees("work", 0)
    sender.sees("news", 0)
    for topic, way in (("work", "one"), ("news", "all"), ("later", "one")):
        sender.tell("send", topic, way, 20, 200, 3000)
        sender.tell("send", topic, way, 220, 3, LARGE)
        sender.tell("send", topic, way, 223, 50, 50_000)
        sender.tell("send", topic, way, 900, 10, 100, "MEMORY")
    sender.kill()


WANTED = {
    ("w", "work"): heads("s", "work", "one", 20, 253),
    ("sub", "news"): heads("s", "news", "all", 20, 253),
    ("late", "later"): heads("s", "later", "one", 20, 253),
}
LETTERS = [f"w:1:{head}" for head in heads("s", "work", "one", 15, 5)]


def pending(company, build, count):
    """What is pending of `fill`, with the last `count` messages of each receiver, not counting the dead letters. The
    old build counts parts."""
    more = 6 if build is company.old and count >= 53 else 0
    return 3 * (count + more)


def drains(company, build):
    """Another build opens all stores of `fill`; each message arrives once and in order."""
    sender = company.start(build, "s", "s's")
    expect(sender.tell("pending") == [str(pending(company, build, 253) + 5)], f"{sender.tell('by_peer')}")
    receivers = {(name, topic): company.start(build, name, topic) for name, topic in WANTED}
    for key, wanted in WANTED.items():
        same(receivers[key].take(len(wanted)), wanted)
    undertaker = company.start(build, "u", "work.dead")
    same(undertaker.tell("letters", 5, SOON_MS), LETTERS)
    sender.tell("settle", 0, SOON_MS)
    for receiver in [*receivers.values(), undertaker]:
        receiver.has_nothing()
        expect(receiver.tell("errors") == [], f"{receiver.tell('errors')}")
    expect(sender.tell("errors") == [], f"{sender.tell('errors')}")


def an_old_store_drains(company):
    fill(company, company.old)
    drains(company, company.new)


def an_old_store_drains_over_kills(company):
    """Both sides are killed five times while they drain."""
    fill(company, company.old)
    journals = {key: company.place / f"{key[0]}.journal" for key in WANTED}
    for life in range(6):
        sender = company.start(company.new, "s", "s's")
        receivers = [company.start(company.new, *key) for key in WANTED]
        for receiver, journal in zip(receivers, journals.values()):
            receiver.tell("consume", journal)
        if life == 5:
            sender.tell("settle", 5, SOON_MS)
        else:
            sender.tell("settle", 764 - 120 * (life + 1), SOON_MS)
        for player in [receivers[life % 3], sender, *receivers]:
            if not player.process.stdin.closed:
                player.kill()
    for (name, topic), wanted in WANTED.items():
        way = wanted[0].split("/")[2]
        numbers = Received(journals[name, topic]).of("s", topic, way)
        in_order(numbers, f"{name} {topic}")
        same([f"s/{topic}/{way}/{number}" for number in numbers], wanted)


def a_new_store_drains_in_the_old_build(company):
    """Messages to one, to a known subscriber, and dead letters, when no receiver has any of them in hand. After a kill
    the new build has to open the store once more, since there are messages of several parts."""
    fill(company, company.new)
    is_refused(company, "s")
    company.start(company.new, "s", "s's").tell("close")
    for _ in range(2):
        company.start(company.old, "s", "s's").kill()
    drains(company, company.old)


def there_and_back(company):
    """Half of a store is drained by the other build, and the rest by the first one."""
    fill(company, company.old)
    for build, first, count in ((company.new, 20, 100), (company.old, 120, 100), (company.new, 220, 53)):
        players = [company.start(build, "s", "s's")]
        players += [company.start(build, name, topic) for name, topic in WANTED]
        for player, (name, topic) in zip(players[1:], WANTED):
            way = "all" if topic == "news" else "one"
            same(player.take(count), heads("s", topic, way, first, count))
        players[0].tell("settle", 5 + pending(company, build, 273 - first - count), SOON_MS)
        for player in players[::-1]:
            player.tell("close")
            player.kill()


def large_messages_lie_across_files(company):
    """The old build has written the first files, and this build a summary of the last one: a message that begins in the
    one and ends in the other is whole."""
    sender = company.start(company.old, "s", "s's")
    topics = [f"t{at}" for at in range(4)]
    receivers = [company.start(company.old, f"r{topic}", topic) for topic in topics]
    for topic in topics:
        sender.sees(topic, 1)
    for receiver in receivers:
        receiver.kill()
    for topic in topics:
        sender.sees(topic, 0)
    for at, topic in enumerate(topics):
        sender.tell("send", topic, "all", 0, 6, LARGE + 400_000 * at)
    sender.kill()
    for _ in range(2):
        sender = company.start(company.new, "s", "s's")
        expect(sender.tell("pending") == ["24"], f"pending: {sender.tell('by_peer')}")
        sender.kill()
    sender = company.start(company.new, "s", "s's")
    for topic in topics:
        same(company.start(company.new, f"r{topic}", topic).take(6), heads("s", topic, "all", 0, 6))
    sender.tell("settle", 0, SOON_MS)


def what_an_old_build_has_bound_comes_first(company):
    """Messages to one that the new build of the sender accepts do not overtake those bound to a receiver."""
    names, sender = ("w0", "w1"), company.start(company.old, "s", "s's")
    workers = [company.start(company.old, name, "work") for name in names]
    sender.sees("work", 2)
    sender.tell("send", "work", "one", 0, 2, 100)
    for worker in workers:
        worker.take(1)
    sender.tell("settle", 0, SOON_MS)
    for worker in workers:
        worker.kill()
    sender.sees("work", 0)
    sender.tell("send", "work", "one", 2, 400, 3000)
    sender.kill()
    sender = company.start(company.new, "s", "s's")
    sender.tell("send", "work", "one", 402, 400, 100)
    journals = [company.place / f"{name}.journal" for name in names]
    for name, journal in zip(names, journals):
        company.start(company.new, name, "work").tell("consume", journal)
    sender.tell("settle", 0, SOON_MS)
    shares = [Received(journal).of("s", "work", "one") for journal in journals]
    for name, numbers in zip(names, shares):
        in_order(numbers, name)
        bound = [number for number in numbers if number < 402]
        expect(len(bound) == 200, f"{name}: {len(bound)} of 200 that were bound to it")
    expect(sorted(sum(shares, [])) == list(range(2, 802)), "each once")


CASES = (
    an_old_store_drains,
    an_old_store_drains_over_kills,
    a_new_store_drains_in_the_old_build,
    there_and_back,
    large_messages_lie_across_files,
    what_an_old_build_has_bound_comes_first,
)
