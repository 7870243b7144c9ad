"""The driver of the port: driver_port.py PROGRAM. driver.py describes each command."""
import errno
import json
import queue
import struct
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

from port_face import (ABOUT, ACK, ADDRESSES, FAIL, FORGET, GIVE_BACK, HEADER, ID, NACK, PENDING, PENDING_BY_RECEIVER,
                       STATISTICS, SUBSCRIBE, TERMINATE, UNSUBSCRIBE, WAIT_LISTENERS, WAIT_PENDING, Client, Message,
                       Port, Refused, field, nested, sized)

VERDICTS = {"ack": ACK, "nack": NACK, "terminate": TERMINATE, "give_back": GIVE_BACK, "fail": FAIL}
CURSOR_SCHEMA = """CREATE TABLE IF NOT EXISTS pinnace_handled (client VARCHAR(255) NOT NULL, sender CHAR(32) NOT NULL,
    stream BIGINT NOT NULL, number BIGINT NOT NULL, PRIMARY KEY (client, sender, stream, number))"""
SOON_MS = 20_000
port = Port(sys.argv[1])
clients, deliveries = {}, []
released = queue.Queue()  # permissions for handlers that hang
closed = queue.Queue()  # what handlers that close have got


def body(spec):
    if spec.startswith("="):
        return spec[1:].encode()
    size, seed = map(int, spec.split(":"))
    period = bytes((at // 7 + seed) % 256 for at in range(7 * 256))
    return (period * (size // len(period) + 1))[:size]


def delivery_of(number):
    found = deliveries[int(number)]
    if found.is_settled:
        raise Refused(errno.EFAULT, "it was settled")
    return found


def known_peer(value):
    """A name, an endpoint and a topic."""
    return b"".join(map(field, value.split("@")))


def start(client, name, topic, *options):
    pairs = [option.split("=", 1) for option in options]
    if client in clients:
        clients.pop(client).close_lingering()
    given = [(key, known_peer(value) if key == "peer" else value) for key, value in pairs]
    clients[client] = Client(port, name, topic, given)


def send_all(client, topic, spec):
    return f"number {clients[client].send(Message(topic, body(spec), all=True))}"


def send_with(client, topic, spec, every, interval, ttl, timeout):
    clients[client].send(Message(topic, body(spec), every == "1", int(interval), int(ttl), int(timeout)))


def describe(client, topic, spec, *words):
    texts = [None if word == "-" else "" if word == "''" else word for word in words[:5]]
    properties = [bytes([kind]) + field(text) for kind, text in enumerate(texts, ID) if text is not None]
    headers = [word.split("=", 1) for word in words[5:]]
    properties += [bytes([HEADER]) + field(key) + sized(value.encode()) for key, value in headers]
    clients[client].send(Message(topic, body(spec), properties=properties))


def properties_of(number):
    got = delivery_of(number)
    texts = [got.texts.get(kind, "-") for kind in range(ID, HEADER)]
    return " ".join(["properties", *texts, *(f"{key}={value.decode()}" for key, value in got.headers)])


def together(client, number, timeout, *words):
    messages = [
        Message(topic, body(spec), every == "1", timeout_ms=int(timeout),
                properties=[] if id == "-" else [bytes([ID]) + field(id)])
        for topic, spec, every, id in zip(*[iter(words)] * 4)
    ]
    clients[client].together(delivery_of(number), messages)


def burst(client, topic, count):
    answers = [clients[client].send_async(Message(topic, str(number).encode())) for number in range(int(count))]
    for answer in answers:
        answer.result()


def recv(client, timeout):
    got = clients[client].recv(int(timeout))
    deliveries.append(got)
    known = f"{got.sender} {got.topic} {got.count} {got.accepted_ms}"
    return f"delivery {len(deliveries) - 1} {known} {len(got.body)} {zlib.adler32(got.body)}"


def dead(number):
    why = delivery_of(number).dead
    if why is None:
        raise Refused(errno.ENOENT, "no dead letter")
    return " ".join(["dead", *map(str, why)])


def by_peer(client):
    found = nested(clients[client].request(PENDING_BY_RECEIVER)) or []
    return " ".join(["by_peer", *(f"{of.get('receiver', '-')}:{of['topic']}:{of['messages']}" for of in found)])


def take(client, count):
    said = "took"
    for _ in range(int(count)):
        delivery = clients[client].recv(SOON_MS)
        said += f" {delivery.body.decode()}"
        delivery.settle(ACK)
    return said


class OnPurpose(Exception):
    """Raised by the handler for the verdict `throw`."""


def run(client, *verdicts):
    said, left = "ran", list(verdicts)

    def say(delivery):
        nonlocal said
        said += f" {delivery.body.decode()}:{delivery.count}"
        word = left.pop(0)
        if word == "throw":
            raise OnPurpose
        return VERDICTS[word]

    while left:
        try:
            clients[client].handle(say)
        except OnPurpose:
            continue
    return said


def forward(client, topic):
    one = clients[client]
    one.listen(lambda delivery: one.send(Message(topic, delivery.body)))


def hang(client, topic):
    one = clients[client]

    def handle(delivery):
        released.get()
        if topic != "-":
            one.send(Message(topic, delivery.body))

    one.listen(handle)


def close_by_handler(client, timeout):
    one = clients[client]

    def handle(_):
        try:
            one.drain(int(timeout))
            one.close(int(timeout))
            one.close(int(timeout))
        except Refused as error:
            closed.put(error)
        else:
            closed.put(None)

    one.listen(handle)


def wait_closed():
    error = closed.get(timeout=60)
    if error is not None:
        raise error


def close_twice(client, timeout):
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: clients[client].close(int(timeout)), range(2)))
    clients[client].close(int(timeout))


def poll(client, timeout):
    """Receives what can be received, and gives it back."""
    try:
        clients[client].recv(int(timeout)).settle(GIVE_BACK)
    except Refused as refused:
        return f"number {int(refused.errno != errno.EAGAIN)}"
    return "number 1"


def addresses(client, topic):
    return " ".join(["addresses", *clients[client].request(ADDRESSES, topic).decode().splitlines()])


def statistics(client):
    found = {"outgoing": [], "incoming": [], **nested(clients[client].request(STATISTICS))}
    # What is unknown has no entry.
    found["outgoing"] = [{"receiver": None, "reason": None, **of} for of in found["outgoing"]]
    return f"statistics {json.dumps(found)}"


def metrics(client):
    address = clients[client].about.get("metrics")
    if address is None:
        raise Refused(errno.ENOENT, "it serves no metrics")
    return f"metrics {address}"


def identity(client):
    about = nested(clients[client].request(ABOUT))
    return f"identity {about['name']} {about['endpoint']}"


def interrupt(client):
    ended = []

    def receive():
        try:
            clients[client].recv(-1)
        except Refused as error:
            ended.append(error.errno)

    thread = threading.Thread(target=receive)
    thread.start()
    clients[client].close_lingering()
    thread.join()
    return f"error {ended[0]} of the thread that received"


def wait_pending(client, most, timeout):
    clients[client].request(WAIT_PENDING, struct.pack(">Q", int(most)), int(timeout))


def wait_listeners(client, topic, count, timeout):
    clients[client].request(WAIT_LISTENERS, topic, int(count), int(timeout))


def pending(client):
    return f"number {struct.unpack('>Q', clients[client].request(PENDING))[0]}"


COMMANDS = {
    "start": start,
    "close": lambda client: clients[client].close_lingering(),
    "send": lambda client, topic, spec: clients[client].send(Message(topic, body(spec))) and None,
    "all": send_all,
    "with": send_with,
    "describe": describe,
    "properties": properties_of,
    "burst": burst,
    "together": together,
    "recv": recv,
    "dead": dead,
    "ack": lambda number: deliveries[int(number)].settle(ACK),
    "nack": lambda number, delay: deliveries[int(number)].settle(NACK, int(delay)),
    "terminate": lambda number: deliveries[int(number)].settle(TERMINATE),
    "fail": lambda number: deliveries[int(number)].settle(FAIL),
    "give_back": lambda number: deliveries[int(number)].settle(GIVE_BACK),
    "cursor": lambda number: " ".join(["cursor", *map(str, delivery_of(number).cursor)]),
    "schema": lambda: "schema " + CURSOR_SCHEMA.replace("\n", " "),
    "by_peer": by_peer,
    "take": take,
    "run": run,
    "forward": forward,
    "hang": hang,
    "release": lambda: released.put(None),
    "in_hand": lambda client: f"number {clients[client].about['in_hand']}",
    "drain": lambda client, timeout: clients[client].drain(int(timeout)),
    "close_within": lambda client, timeout: clients[client].close(int(timeout)),
    "close_by_handler": close_by_handler,
    "closed": wait_closed,
    "close_twice": close_twice,
    "pending": pending,
    "settle": wait_pending,
    "wait_listeners": wait_listeners,
    "poll": poll,
    "subscribe": lambda client, topic: clients[client].request(SUBSCRIBE, topic) and None,
    "unsubscribe": lambda client, topic: clients[client].request(UNSUBSCRIBE, topic) and None,
    "forget": lambda client, name: clients[client].request(FORGET, name) and None,
    "addresses": addresses,
    "statistics": statistics,
    "metrics": metrics,
    "identity": identity,
    "interrupt": interrupt,
}

for line in sys.stdin:
    word, *rest = line.split()
    try:
        print(COMMANDS[word](*rest) or "ok", flush=True)
    except Refused as error:
        print(f"error {error.errno} {error.strerror}", flush=True)
