"""The messages of a cell: for each pattern a script for its two sides, independent of the implementations.

A script gets both sides, opened and connected as the pattern requires, and the messages to send. It returns if each
side received the right messages, byte for byte, and otherwise raises Broken. Nothing sleeps: if a pattern may drop
early messages (a PUB without subscribers), the script sends probes until one arrives.
"""
import time

from .peer import Broken, shown, word

PROBE_MS, PROBES_S, NOTHING_MS = 20, 15, 150
MEBIBYTE, BLOCK = 1 << 20, 251 * 256
NAME = b"dealer-7"


def body(length):
    """Bytes of every value, with a period that fits no buffer's size."""
    block = bytes((n * 7 + n // 251) % 256 for n in range(min(length, BLOCK)))
    return (block * (length // BLOCK + 1))[:length]


# By kind, so that a kind can be left out for a peer that lacks it.
PLAIN = [[b"x"], [b"one", b"two", bytes(range(256))], [body(255)], [body(256)], [body(8193), b"tail"]]
EMPTY = [[b""], [b"", b"body"], [b"head", b"", b"tail"], [b"", b"", b""]]
LARGE = [[body(MEBIBYTE)], [b"head", body(MEBIBYTE), b"tail"]]


def messages(spared):
    return PLAIN + ([] if "empty frames" in spared else EMPTY) + LARGE


def reply(message):
    return [*reversed(message), b"reply"]


def stream(push, pull, said, _spared):
    for message in said:
        push.send(*message)
    for message in said:
        pull.expect(*message)


def until_heard(publisher, subscriber, topic):
    """Publishes numbered probes until the subscriber gets one, then receives the others in flight."""
    end, sent = time.monotonic() + PROBES_S, []
    while time.monotonic() < end:
        sent.append([topic + b"probe", b"%d" % len(sent)])
        publisher.send(*sent[-1])
        got = subscriber.recv(PROBE_MS)
        if got:
            if got not in sent:
                raise Broken(f"{subscriber.name}: received {shown(got)}; expected a probe")
            for probe in sent[sent.index(got) + 1:]:
                subscriber.expect(*probe)
            return
    raise Broken(f"{subscriber.name}: no probe of topic {topic} in {PROBES_S} s")


def until_seen(publisher, subscriber, subscription):
    """Waits for the publisher to see the first subscription. Calls the subscriber meanwhile: libzmq's sockets attach a
    new connection only during the user's calls."""
    end = time.monotonic() + PROBES_S
    while time.monotonic() < end:
        got = publisher.recv(PROBE_MS)
        if got:
            if got != [subscription]:
                raise Broken(f"{publisher.name}: received {shown(got)}; expected {shown([subscription])}")
            return
        early = subscriber.recv(0)
        if early:
            raise Broken(f"{subscriber.name}: received {shown(early)} unasked")
    raise Broken(f"{publisher.name}: no subscription {subscription} in {PROBES_S} s")


def until_deaf(publisher, subscriber, topic, kept):
    """Publishes probes of two topics until only the kept topic's probe arrives."""
    end, number = time.monotonic() + PROBES_S, 0
    while time.monotonic() < end:
        probes = [[topic + b"last", b"%d" % number], [kept + b"last", b"%d" % number]]
        for probe in probes:
            publisher.send(*probe)
        got = subscriber.recv(10_000)
        if got == probes[1]:
            return
        if got != probes[0]:
            raise Broken(f"{subscriber.name}: received {got and shown(got)}; expected a probe")
        subscriber.expect(*probes[1])
        number += 1
    raise Broken(f"{subscriber.name}: still hears topic {topic} after {PROBES_S} s")


def published(publisher, subscriber, wanted, unwanted, said, spared=()):
    """The subscriber must receive all messages of the wanted topic, in order, and none of the other."""
    for message in said:
        if "topics" not in spared:
            publisher.send(unwanted + b"-topic", *message)
        publisher.send(wanted + b"-topic", *message)
    for message in said:
        subscriber.expect(wanted + b"-topic", *message)


def publish(pub, sub, said, _spared):
    until_heard(pub, sub, b"A")
    published(pub, sub, b"A", b"B", said)
    sub.do("subscribe", b"B".hex())
    until_heard(pub, sub, b"B")
    sub.do("unsubscribe", b"A".hex())
    until_deaf(pub, sub, b"A", b"B")
    published(pub, sub, b"B", b"A", [[b"end"]])


def publish_knowing(xpub, xsub, said, spared):
    """As `publish`, but subscriptions are messages, which the publisher sees."""
    seen = "subscriptions" not in spared
    xsub.send(b"\1A")
    if seen:
        until_seen(xpub, xsub, b"\1A")
    until_heard(xpub, xsub, b"A")
    published(xpub, xsub, b"A", b"B", said, spared)
    xsub.send(b"\1B")
    xsub.send(b"\0A")
    if seen:
        xpub.expect(b"\1B")
        xpub.expect(b"\0A")
    else:
        until_heard(xpub, xsub, b"B")
        until_deaf(xpub, xsub, b"A", b"B")
    published(xpub, xsub, b"B", b"A", [[b"end"]], spared)


def ask(req, rep, said, _spared):
    for message in said:
        req.send(*message)
        rep.expect(*message)
        rep.send(*reply(message))
        req.expect(*reply(message))


def routed(router, message):
    """Receives this message; returns the id in front of it."""
    got = router.recv(10_000)
    if not got or got[1:] != message or not got[0]:
        raise Broken(f"{router.name}: received {got and shown(got)}; expected an id and {shown(message)}")
    return got[0]


def ask_router(req, router, said, _spared):
    """The id is generated by the router or by the requester's library; a reply with it must arrive."""
    for message in said:
        req.send(*message)
        name = routed(router, [b"", *message])
        router.send(name, b"", *reply(message))
        req.expect(*reply(message))


def deal_to_rep(dealer, rep, said, _spared):
    """The frames before the first empty one are the envelope, and come back unchanged."""
    for message in said:
        dealer.send(b"envelope", b"", *message)
        rep.expect(*message)
        rep.send(*reply(message))
        dealer.expect(b"envelope", b"", *reply(message))


def deal(dealer, router, said, _spared):
    for message in said:
        dealer.send(*message)
    for message in said:
        router.expect(NAME, *message)
    for message in said:
        router.send(NAME, *reply(message))
    for message in said:
        dealer.expect(*reply(message))


def converse(one, other, said, spared):
    stream(one, other, said, spared)
    stream(other, one, [reply(message) for message in said], spared)


def refusal(stranger, host, said, _spared):
    """The server's ZAP handler refuses the stranger, and none of the stranger's messages arrive."""
    try:
        for message in said[:1]:
            stranger.do("offer", *map(word, message))
    except Broken:
        pass  # for some implementations the send reports the refusal
    if host.do("refused", "10000") is None:
        raise Broken(f"{host.name}: nobody was refused")
    got = host.recv(NOTHING_MS)
    if got:
        raise Broken(f"{host.name}: received {shown(got)} from who was refused")


class Pattern:
    """Two sides and their script. With `stranger`, the client has the wrong password or the wrong key."""

    def __init__(self, first, second, script, topic=None, name=None, stranger=False):
        self.sides = first, second
        self.script, self.topic, self.routing_id, self.stranger = script, topic, name, stranger
        self.name = script.__name__ if stranger else f"{first}/{second}"
        self.both_receive = script not in (stream, publish, publish_knowing)

    def directions(self):
        """The side that ours plays, and whether it binds. A stranger connects, so that the server can refuse it."""
        if self.stranger:
            return [(1, True), (0, False)]
        sides = (0,) if self.sides[0] == self.sides[1] else (0, 1)
        return [(side, binds) for side in sides for binds in (True, False)]

    def prepare(self, sides):
        """Before the connect: subscribes, for patterns that subscribe by option."""
        if self.topic:
            sides[1].do("subscribe", self.topic.hex())

    def settings(self, side):
        return [f"id={self.routing_id.hex()}"] if self.routing_id and side == 0 else []


PATTERNS = [
    Pattern("PUSH", "PULL", stream),
    Pattern("PUB", "SUB", publish, topic=b"A"),
    Pattern("XPUB", "XSUB", publish_knowing),
    Pattern("REQ", "REP", ask),
    Pattern("REQ", "ROUTER", ask_router),
    Pattern("DEALER", "REP", deal_to_rep),
    Pattern("DEALER", "ROUTER", deal, name=NAME),
    Pattern("PAIR", "PAIR", converse),
    Pattern("PUSH", "PULL", refusal, stranger=True),
]
