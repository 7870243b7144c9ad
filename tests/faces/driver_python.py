"""The driver of the Python face: driver.py describes each command."""
import errno
import json
import queue
import select
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Optional

from pinnace import CURSOR_SCHEMA, Client, Delivery, Durability, Error, NewMessage, Peer, Ticket, Verdict

clients: dict[str, Client] = {}
deliveries: list[Delivery] = []


def seconds(word: str) -> "float | None":
    return None if word.startswith("-") else int(word) / 1000


def body(spec: str) -> bytes:
    if spec.startswith("="):
        return spec[1:].encode()
    size, seed = map(int, spec.split(":"))
    period = bytes((at // 7 + seed) % 256 for at in range(7 * 256))
    return (period * (size // len(period) + 1))[:size]


def start(client: str, name: str, topic: str, *options: str) -> str:
    pairs = [option.split("=", 1) for option in options]
    known = [value.split("@") for key, value in pairs if key == "peer"]
    peers = [Peer(peer, endpoint, (listens,)) for peer, endpoint, listens in known]
    topics = [value for key, value in pairs if key == "topic"]
    more = {key: value for key, value in pairs if key not in ("peer", "topic")}
    if client in clients:
        clients.pop(client).close()
    clients[client] = Client(name, topic, topics=topics, peers=peers, more=more)
    return "ok"


def close(client: str) -> str:
    clients[client].close()
    return "ok"


def send(client: str, topic: str, spec: str) -> str:
    clients[client].send_to(topic, body(spec))
    return "ok"


def send_all(client: str, topic: str, spec: str) -> str:
    return f"number {clients[client].send_all(topic, body(spec))}"


def send_with(client: str, topic: str, spec: str, every: str, interval: str, ttl: str, timeout: str) -> str:
    durability = Durability.INTERVAL if interval == "1" else Durability.SYNC
    lives = None if ttl == "0" else seconds(ttl)
    clients[client].send(
        topic, body(spec), all=every == "1", durability=durability, ttl=lives, timeout=seconds(timeout)
    )
    return "ok"


def describe(client: str, topic: str, spec: str, *words: str) -> str:
    texts = [None if word == "-" else "" if word == "''" else word for word in words[:5]]
    id, content_type, traceparent, tracestate, ordering_key = texts
    headers = dict(word.split("=", 1) for word in words[5:])
    clients[client].send(topic, body(spec), id=id, content_type=content_type, traceparent=traceparent,
                         tracestate=tracestate, ordering_key=ordering_key, headers=headers)
    return "ok"


def properties(number: str) -> str:
    got = deliveries[int(number)]
    found = got.id, got.content_type, got.traceparent, got.tracestate, got.ordering_key
    texts = [text or "-" for text in found]
    return " ".join(["properties", *texts, *(f"{key}={value.decode()}" for key, value in got.headers.items())])


def together(client: str, number: str, timeout: str, *words: str) -> str:
    messages = [
        NewMessage(topic, body(spec), all=every == "1", id=None if id == "-" else id)
        for topic, spec, every, id in zip(*[iter(words)] * 4)
    ]
    clients[client].ack_and_send(deliveries[int(number)], messages, seconds(timeout))
    return "ok"


def burst(client: str, topic: str, count: str) -> str:
    last = Ticket(0)
    for number in range(int(count)):
        last = clients[client].send_async(topic, str(number).encode())
    clients[client].wait(last)
    return "ok"


def recv(client: str, timeout: str) -> str:
    got = clients[client].recv(seconds(timeout))
    deliveries.append(got)
    known = f"{got.sender} {got.topic} {got.deliveries} {round(got.accepted * 1000)}"
    return f"delivery {len(deliveries) - 1} {known} {len(got.body)} {zlib.adler32(got.body)}"


def dead(number: str) -> str:
    why = deliveries[int(number)].dead
    if why is None:
        raise Error(errno.ENOENT, "no dead letter")
    return f"dead {why.topic} {why.receiver} {why.deliveries} {int(why.reason)}"


def cursor(number: str) -> str:
    return " ".join(["cursor", *map(str, deliveries[int(number)].cursor)])


def by_peer(client: str) -> str:
    found = clients[client].pending_by_peer()
    return " ".join(["by_peer", *(f"{peer.receiver or '-'}:{peer.topic}:{peer.messages}" for peer in found)])


def settle(how: str, number: str, delay: str = "-1") -> str:
    delivery = deliveries[int(number)]
    if how == "nack":
        delivery.nack(seconds(delay))
    else:
        getattr(delivery, how)()
    return "ok"


def take(client: str, count: str) -> str:
    said = "took"
    for _ in range(int(count)):
        with clients[client].recv(20) as delivery:
            said += f" {delivery.body.decode()}"
    return said


class OnPurpose(Exception):
    """Raised by the handler for the verdict `throw`."""


def run(client: str, *verdicts: str) -> str:
    said, left = "ran", list(verdicts)

    def say(delivery: Delivery) -> "Verdict | None":
        nonlocal said
        said += f" {delivery.body.decode()}:{delivery.deliveries}"
        word = left.pop(0)
        if word == "throw":
            raise OnPurpose
        stop = Verdict(0) if left else Verdict.STOP
        return Verdict[word.upper()] | stop

    while left:
        try:
            clients[client].run(say)
        except OnPurpose:
            continue
    return said


def forward(client: str, topic: str) -> str:
    one = clients[client]
    one.listen(lambda delivery: one.send_to(topic, delivery.body))
    return "ok"


def start_process(client: str, topic: str) -> str:
    one = clients[client]

    def handle(delivery: Delivery) -> None:
        said = subprocess.check_output(["grep", "SigBlk", "/proc/self/status"])
        one.send_to(topic, said.split()[1])

    one.listen(handle)
    return "ok"


released: "queue.Queue[None]" = queue.Queue()  # permissions for handlers that hang
closed: "queue.Queue[Optional[Error]]" = queue.Queue()  # what handlers that close have got


def hang(client: str, topic: str) -> str:
    one = clients[client]

    def handle(delivery: Delivery) -> None:
        released.get()
        if topic != "-":
            one.send_to(topic, delivery.body)

    one.listen(handle)
    return "ok"


def release() -> str:
    released.put(None)
    return "ok"


def drain(client: str, timeout: str) -> str:
    clients[client].drain(seconds(timeout))
    return "ok"


def close_within(client: str, timeout: str) -> str:
    clients[client].close(seconds(timeout))
    return "ok"


def close_by_handler(client: str, timeout: str) -> str:
    one = clients[client]

    def handle(_: Delivery) -> None:
        try:
            one.drain(seconds(timeout))
            one.close(seconds(timeout))
            one.close(seconds(timeout))
        except Error as error:
            closed.put(error)
        else:
            closed.put(None)

    one.listen(handle)
    return "ok"


def wait_closed() -> str:
    error = closed.get(timeout=60)
    if error is not None:
        raise error
    return "ok"


def close_twice(client: str, timeout: str) -> str:
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: clients[client].close(seconds(timeout)), range(2)))
    return close_within(client, timeout)


def wait_pending(client: str, most: str, timeout: str) -> str:
    clients[client].wait_pending(int(most), seconds(timeout))
    return "ok"


def wait_listeners(client: str, topic: str, count: str, timeout: str) -> str:
    clients[client].wait_listeners(topic, int(count), seconds(timeout))
    return "ok"


def poll(client: str, timeout: str) -> str:
    return f"number {len(select.select([clients[client]], [], [], seconds(timeout))[0])}"


def subscribe(client: str, topic: str) -> str:
    clients[client].subscribe(topic)
    return "ok"


def forget(client: str, name: str) -> str:
    clients[client].forget(name)
    return "ok"


def unsubscribe(client: str, topic: str) -> str:
    clients[client].unsubscribe(topic)
    return "ok"


def interrupt(client: str) -> str:
    ended: list[int] = []

    def receive() -> None:
        try:
            clients[client].recv()
        except Error as error:
            ended.append(error.errno or 0)

    thread = threading.Thread(target=receive)
    thread.start()
    clients[client].close()
    thread.join()
    return f"error {ended[0]} of the thread that received"


COMMANDS: "dict[str, Callable[..., str]]" = {
    "start": start,
    "close": close,
    "send": send,
    "all": send_all,
    "with": send_with,
    "describe": describe,
    "properties": properties,
    "burst": burst,
    "together": together,
    "recv": recv,
    "dead": dead,
    "cursor": cursor,
    "schema": lambda: "schema " + CURSOR_SCHEMA.replace("\n", " "),
    "by_peer": by_peer,
    "take": take,
    "run": run,
    "forward": forward,
    "start_process": start_process,
    "hang": hang,
    "release": release,
    "in_hand": lambda client: f"number {clients[client].in_hand}",
    "drain": drain,
    "close_within": close_within,
    "close_by_handler": close_by_handler,
    "closed": wait_closed,
    "close_twice": close_twice,
    "pending": lambda client: f"number {clients[client].pending}",
    "settle": wait_pending,
    "wait_listeners": wait_listeners,
    "poll": poll,
    "subscribe": subscribe,
    "unsubscribe": unsubscribe,
    "forget": forget,
    "addresses": lambda client, topic: " ".join(["addresses", *clients[client].addresses(topic)]),
    "statistics": lambda client: f"statistics {json.dumps(clients[client].statistics())}",
    "metrics": lambda client: f"metrics {clients[client].metrics_address}",
    "identity": lambda client: f"identity {clients[client].name} {clients[client].endpoint}",
    "interrupt": interrupt,
}


def obey(word: str, *rest: str) -> str:
    if word in ("ack", "nack", "terminate", "fail", "give_back"):
        return settle(word, *rest)
    return COMMANDS[word](*rest)


for line in sys.stdin:
    try:
        print(obey(*line.split()), flush=True)
    except Error as error:
        print(f"error {error.errno} {error.strerror}", flush=True)
