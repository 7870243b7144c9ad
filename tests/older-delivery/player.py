"""A process with one client, on the Python binding of any build; players.py describes the commands."""
import os
import random
import sys
import threading

from pinnace import Client, Durability, Error

client: "Client | None" = None
reported: "list[str]" = []
held: "list[object]" = []
stopping = threading.Event()
threads: "list[threading.Thread]" = []

PENDING_MOST = 2000
SLICE_S = 0.1


def body(head, size):
    """A head that names the message, and bytes that depend on it and cannot be compressed."""
    return f"{head} {size}\n".encode() + random.Random(head).randbytes(size)


def said(delivery):
    """The head of a message, or `damaged` if the rest is not what was sent."""
    head, _, _ = delivery.body.partition(b"\n")
    words = head.decode(errors="replace").split()
    if len(words) != 5 or delivery.body != body(" ".join(words[:4]), int(words[4])):
        return f"damaged:{len(delivery.body)}:{head[:40]!r}".replace(" ", "_")
    return "/".join(words[:4])


def start(name, topic, *options):
    global client
    more = dict(option.split("=", 1) for option in options)
    trust = dict([more.pop("trust").split("@", 1)]) if "trust" in more else {}
    cert = more.pop("cert", None)
    client = Client(name, topic, more=more, cert=cert, trust=trust,
                    on_error=lambda error: reported.append(str(error)))


def send(topic, way, first, count, size, durability="SYNC", *described):
    more = {}
    for number in range(int(first), int(first) + int(count)):
        if described:
            more = dict(id=f"id-{number}", headers={"region": "north"})
        content = body(f"{client.name} {topic} {way} {number}", int(size))
        client.send(topic, content, all=way == "all", durability=Durability[durability], **more)


def recv(timeout_ms):
    return client.recv(int(timeout_ms) / 1000)


def take(count, timeout_ms):
    """Receives and acknowledges, in the order of arrival."""
    heads = []
    for _ in range(int(count)):
        delivery = recv(timeout_ms)
        heads.append(said(delivery))
        delivery.ack()
    return " ".join(heads)


def hold(count, timeout_ms):
    """Receives, and settles nothing."""
    heads = []
    for _ in range(int(count)):
        held.append(recv(timeout_ms))
        heads.append(said(held[-1]))
    return " ".join(heads)


def release():
    while held:
        held.pop(0).ack()


def terminate(count, timeout_ms):
    for _ in range(int(count)):
        recv(timeout_ms).terminate()


def letters(count, timeout_ms):
    """Receives dead letters: the receiver that gave each up, and what it was."""
    found = []
    for _ in range(int(count)):
        delivery = recv(timeout_ms)
        dead = delivery.dead
        found.append(f"{dead.receiver}:{dead.deliveries}:{said(delivery)}")
        delivery.ack()
    return " ".join(found)


def in_thread(work, *arguments):
    def run():
        try:
            work(*arguments)
        except Error as error:
            if not stopping.is_set():
                reported.append(f"{work.__name__}: {error}")

    stopping.clear()
    threads.append(threading.Thread(target=run))
    threads[-1].start()


def wait_for_few():
    while not stopping.is_set():
        try:
            return client.wait_pending(PENDING_MOST, SLICE_S)
        except Error:
            pass


def produce(topic, way, journal, first):
    """Sends numbered messages until `stop`. The journal has each number before it is sent, and once it is on the
    disk."""
    one, number = client, int(first)
    with open(journal, "ab", buffering=0) as notes:
        while not stopping.is_set():
            notes.write(b"begin %d\n" % number)
            one.send(topic, body(f"{one.name} {topic} {way} {number}", 64), all=way == "all")
            notes.write(b"done %d\n" % number)
            number += 1
            wait_for_few()


def consume(journal):
    """Notes each message with its cursor, and then acknowledges it, until `stop`."""
    one = client
    with open(journal, "ab", buffering=0) as notes:
        while not stopping.is_set():
            try:
                delivery = one.recv(SLICE_S)
            except Error as error:
                if error.errno != 11:
                    raise
                continue
            at = delivery.cursor
            notes.write(f"{said(delivery)} {at.sender} {at.stream} {at.number}\n".encode())
            delivery.ack()


def stop():
    stopping.set()
    while threads:
        threads.pop().join()


def close():
    global client
    stop()
    one, client = client, None
    one.close()


def by_peer():
    return " ".join(f"{peer.receiver or '-'}:{peer.topic}:{peer.messages}" for peer in client.pending_by_peer())


def state():
    statistics = client.statistics() if hasattr(client, "statistics") else "-"
    return f"pending {by_peer()} errors {reported} statistics {statistics}"


COMMANDS = {
    "state": state,
    "start": start,
    "send": send,
    "take": take,
    "hold": hold,
    "release": release,
    "terminate": terminate,
    "letters": letters,
    "produce": lambda *words: in_thread(produce, *words),
    "consume": lambda journal: in_thread(consume, journal),
    "stop": stop,
    "close": close,
    "pending": lambda: str(client.pending),
    "by_peer": by_peer,
    "settle": lambda most, timeout_ms: client.wait_pending(int(most), int(timeout_ms) / 1000),
    "subscribe": lambda topic: client.subscribe(topic),
    "unsubscribe": lambda topic: client.unsubscribe(topic),
    "forget": lambda name: client.forget(name),
    "clear": lambda topic: str(client.clear_pending(topic)),
    "addresses": lambda topic: str(len(client.addresses(topic))),
    "errors": lambda: " | ".join(reported),
}

for line in sys.stdin:
    command, *words = line.split()
    try:
        print("ok", COMMANDS[command](*words) or "", flush=True)
    except AttributeError as error:
        print("error 0", error, flush=True)
    except Error as error:
        print("error", error.errno, str(error).replace("\n", " "), flush=True)
os._exit(0)
