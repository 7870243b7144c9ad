"""Guaranteed delivery over the program pinnace-port (docs/port.md), as a library for a language would offer it.

A thread reads packets, and passes answers to the callers and messages to the clients that wait for them. A client
grants credit for one message when it receives, and withdraws it after a timeout, so that messages wait in the program.
"""
import errno
import os
import struct
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/port"))
from client import PART, Refused, field, messages  # noqa: E402

WITHDRAW = 22
START, DELIVER, SETTLE, SUBSCRIBE, UNSUBSCRIBE, PENDING, STATISTICS, DRAIN, CLOSE, WAIT_LISTENERS = range(50, 60)
WAIT_PENDING, _, FORGET, ADDRESSES, NEW_BODY, DELIVER_BODY, _, TOGETHER, PENDING_BY_RECEIVER, ABOUT = range(60, 70)
ACK, NACK, TERMINATE, GIVE_BACK, IN_HAND, FAIL = range(6)
ID, CONTENT_TYPE, TRACEPARENT, TRACESTATE, ORDERING_KEY, HEADER, DEAD, BODY = range(1, 9)
REASONS = ["terminated", "deliveries", "too_large", "unreadable", "expired"]
# The most octets of a body within a request; others go before it.
SMALL = 100_000


def sized(octets):
    return struct.pack(">I", len(octets)) + octets


def first_text(octets):
    """The first text, and what follows it."""
    end = 4 + struct.unpack_from(">I", octets)[0]
    return octets[4:end], octets[end:]


class Port:
    """The program."""

    def __init__(self, program):
        # The program has the driver's output too: its end tells the suite that both have ended.
        output = os.dup(sys.stdout.fileno())
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([program], **pipes, pass_fds=[output])
        os.close(output)
        self.lock, self.last, self.answers, self.channels = threading.Lock(), 0, {}, {}
        self.write(struct.pack(">BH", 1, 1))
        threading.Thread(target=self._read, daemon=True).start()

    def write(self, packet):
        with self.lock:
            self.process.stdin.write(sized(packet))
            self.process.stdin.flush()

    def new_number(self):
        with self.lock:
            self.last += 1
            return self.last

    def ask(self, operation, *arguments):
        """Requests an operation. Returns its answer to come."""
        number, answer = self.new_number(), Future()
        self.answers[number] = answer
        self.write(struct.pack(">BIH", 2, number, operation) + b"".join(map(field, arguments)))
        return answer

    def request(self, operation, *arguments):
        return self.ask(operation, *arguments).result()

    def upload(self, body):
        """Sends a body before its request. Returns the number of its channel."""
        number = self.new_number()
        self.request(NEW_BODY, number)
        for at in range(0, len(body), PART):
            part = body[at:at + PART]
            self.write(struct.pack(">BIB", 4, number, at + PART >= len(body)) + part)
        return number

    def _read(self):
        output = self.process.stdout
        while length := output.read(4):
            self._handle(output.read(struct.unpack(">I", length)[0]))
        for answer in list(self.answers.values()):
            answer.set_exception(Refused(errno.EPIPE, "the program has ended"))

    def _handle(self, packet):
        kind, (number,), rest = packet[0], struct.unpack_from(">I", packet, 1), packet[5:]
        if kind == 130:
            self.answers.pop(number).set_result(rest)
        elif kind == 131:
            self.answers.pop(number).set_exception(Refused(struct.unpack_from(">I", rest)[0], rest[4:].decode()))
        elif kind == 132:
            for frames in messages(rest):
                self.channels[number].arrived.put(frames)
        elif kind == 133:
            client = self.channels[number]
            client.parts.append(rest[1:])
            if rest[0]:
                (frames,) = messages(b"".join(client.parts))
                client.parts = []
                client.arrived.put(frames)


class Message:
    """A message to send."""

    def __init__(self, topic, body, all=False, durability=0, ttl_ms=0, timeout_ms=-1, properties=()):
        how = bytes([all, durability]) + struct.pack(">Ii", ttl_ms, timeout_ms)
        self.begin, self.properties, self.body = field(topic) + how, b"".join(properties), body

    def ask(self, port, channel):
        head = self.begin + sized(self.properties)
        if len(self.body) <= SMALL:
            return port.ask(DELIVER, channel, head + self.body)
        return port.ask(DELIVER_BODY, channel, port.upload(self.body), head)

    def together(self, port):
        """As an argument of TOGETHER."""
        if len(self.body) <= SMALL:
            return sized(self.begin + sized(self.properties) + self.body)
        named = bytes([BODY]) + field(port.upload(self.body))
        return sized(self.begin + sized(self.properties + named))


class Delivery:
    def __init__(self, client, frames):
        about, sender, topic, properties, self.body = frames
        self.token, self.count, self.accepted_ms, *cursor = struct.unpack(">QIQ16sQQQ", about)
        self.cursor = cursor[0].hex(), *cursor[1:]
        self.client, self.sender, self.topic = client, sender.decode(), topic.decode()
        self.texts, self.headers, self.dead, self.is_settled = {}, [], None, False
        while properties:
            kind = properties[0]
            text, properties = first_text(properties[1:])
            if kind == HEADER:
                value, properties = first_text(properties)
                self.headers.append((text.decode(), value))
            elif kind == DEAD:
                receiver, properties = first_text(properties)
                reason, properties = first_text(properties)
                count, properties = first_text(properties)
                self.dead = text.decode(), receiver.decode(), int(count), REASONS.index(reason.decode())
            else:
                self.texts[kind] = text.decode()

    def settle(self, verdict, delay_ms=-1):
        token = struct.pack(">QB", self.token, verdict)
        try:
            self.client.request(SETTLE, token, delay_ms)
        except Refused as refused:
            raise Refused(errno.EFAULT, "it was settled") if refused.errno == errno.ENOENT else refused
        self.client.note_settled(self)


class Client:
    def __init__(self, port, name, topic, options):
        self.port, self.channel = port, port.new_number()
        self.arrived, self.parts, self.receiving = SimpleQueue(), [], threading.Lock()
        self.lock, self.unsettled, self.is_closed, self.is_drained = threading.Lock(), 0, False, False
        # What the next credit has to grant: the last message may have taken more than was left.
        self.octets = 1
        # The thread that handles a message.
        self.handler = None
        self.handler_linger_ms = int(dict(options).get("handler_linger_ms", 10_000))
        port.channels[self.channel] = self
        pairs = [field(key) + (field(value) if isinstance(value, str) else sized(value)) for key, value in options]
        self.endpoint = self.request(START, name, topic, *pairs).decode()

    def request(self, operation, *arguments):
        return self.port.request(operation, self.channel, *arguments)

    def send_async(self, message):
        return message.ask(self.port, self.channel)

    def send(self, message):
        """Returns the number of receivers."""
        return struct.unpack(">I", self.send_async(message).result())[0]

    def together(self, delivery, sent):
        """Acknowledges a delivery and sends messages in one step."""
        if delivery.is_settled:
            raise Refused(errno.EFAULT, "it was settled")
        if delivery.client is not self:
            raise Refused(errno.EINVAL, "the delivery is another client's")
        parts = [message.together(self.port) for message in sent]
        try:
            self.request(TOGETHER, struct.pack(">Q", delivery.token), *parts)
        except Refused as refused:
            if refused.errno == errno.EINPROGRESS:
                self.note_settled(delivery)
            raise
        self.note_settled(delivery)

    def recv(self, timeout_ms):
        with self.receiving:
            if self.is_drained:
                raise Refused(errno.ECANCELED, "the client receives no more")
            self.port.write(struct.pack(">BIII", 5, self.channel, 1, self.octets))
            frames = self._arrived(timeout_ms)
            if frames is None:
                frames, self.octets = self._withdraw(), 1
            if frames is None:
                raise Refused(errno.ECANCELED if self.is_drained else errno.EAGAIN, "nothing has come")
            self.octets = sum(4 + len(frame) for frame in frames)
            with self.lock:
                self.unsettled += 1
            return Delivery(self, frames)

    def _arrived(self, timeout_ms):
        """None: nothing has come, or the client was drained or closed."""
        try:
            return self.arrived.get(timeout_ms != 0, None if timeout_ms < 0 else timeout_ms / 1000)
        except Empty:
            return None

    def _withdraw(self):
        """Takes the credit back. Returns what came meanwhile, which is before the answer, or None."""
        try:
            self.request(WITHDRAW)
        except Refused:
            if not self.is_closed:
                raise
        # A drain leaves a None.
        return self._arrived(0) or self._arrived(0)

    def handle(self, handler):
        """Receives a message, and calls the handler with it, which returns a verdict. Raises what that raises."""
        delivery = self.recv(-1)
        self.handler = threading.get_ident()
        verdict = FAIL
        try:
            verdict = handler(delivery)
        finally:
            self.handler = None
            delivery.settle(verdict)

    def listen(self, handler):
        """Handles messages in a thread. The handler acknowledges by its return, and fails by an error."""

        def acknowledge(delivery):
            handler(delivery)
            return ACK

        def handle_all():
            while True:
                try:
                    self.handle(acknowledge)
                except Refused:
                    if self.is_drained:
                        return

        threading.Thread(target=handle_all, daemon=True).start()

    def drain(self, timeout_ms):
        self._receive_no_more()
        self._end(DRAIN, b"", timeout_ms)

    def close(self, timeout_ms):
        """Waits for what is in hand. What is settled later counts."""
        self._receive_no_more()
        try:
            self._end(CLOSE, bytes([IN_HAND]), timeout_ms)
        finally:
            self.is_closed = True
            self._let_go()

    def close_lingering(self):
        """Waits for a handler alone, as long as its linger says."""
        try:
            self.close(self.handler_linger_ms if self.handler else 0)
        except Refused as refused:
            if refused.errno != errno.EAGAIN:
                raise

    def _receive_no_more(self):
        self.is_drained = True
        self.arrived.put(None)

    def _end(self, operation, arguments, timeout_ms):
        """Drains or closes. A handler does not wait for its own message."""
        is_handler = self.handler == threading.get_ident()
        try:
            self.request(operation, arguments, 0 if is_handler else timeout_ms)
        except Refused as refused:
            is_closed = self.is_closed and refused.errno == errno.ECANCELED
            if not is_closed and not (is_handler and refused.errno == errno.EAGAIN and self.about["in_hand"] == 1):
                raise

    def note_settled(self, delivery):
        delivery.is_settled = True
        with self.lock:
            self.unsettled -= 1
        if self.is_closed:
            self._let_go()

    def _let_go(self):
        """Ends the channel, once nothing is in hand."""
        with self.lock:
            if self.unsettled:
                return
        try:
            self.request(CLOSE, bytes([GIVE_BACK]), 0)
        except Refused as refused:
            if refused.errno != errno.ECANCELED:
                raise

    @property
    def about(self):
        return nested(self.request(ABOUT))


def nested(octets):
    """Entries as dictionaries and lists, by the dots in their names."""
    root = {}
    while octets:
        name, octets = first_text(octets)
        if octets[0] == 0:
            value, octets = struct.unpack_from(">Q", octets, 1)[0], octets[9:]
        else:
            text, octets = first_text(octets[1:])
            value = text.decode()
        *levels, last = name.decode().split(".")
        below = root
        for level in levels:
            below = below.setdefault(level, {})
        below[last] = value
    return listed(root)


def listed(value):
    """Elements of lists are named 0, 1 and so on."""
    if not isinstance(value, dict):
        return value
    if "0" in value:
        return [listed(value[str(index)]) for index in range(len(value))]
    return {key: listed(below) for key, below in value.items()}
