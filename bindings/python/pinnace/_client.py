"""A client: sends messages to topics, and receives the messages of the topics that it listens on."""
import contextlib
import ctypes
import errno
import itertools
import json
import logging
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Callable, NamedTuple, Optional

from . import _signals
from ._aio import Deliveries, Loops
from ._delivery import Delivery, Verdict
from ._library import PENDING, REPORTER, Closed, Error, TimedOut, checked, error_of, in_c, last_error, lib
from ._library import milliseconds, text, text_of
from ._options import FOREVER, FilePath, Peer, Seconds, add_topics, client_options, in_c_terms, in_s, secure
from ._owner import Owner
from ._sending import PART, Body, Durability, Headers, NewMessage, Ticket, body_in_c, send_options
from ._together import ack_and_send
from ._waiting import in_slices

Handler = Callable[[Delivery], Optional[Verdict]]
"""Called with each message. Returning None counts as Verdict.ACK."""


# What a thread needs at most to end after its call into the library was ended.
_MOMENT_S = 0.2
_log = logging.getLogger("pinnace")


class _Inside(threading.local):
    handlers = 0  # handlers running on this thread, nested


_inside = _Inside()


class Pending(NamedTuple):
    """The messages pending for one receiver on one topic."""

    receiver: Optional[str]  # None: for the first client that listens
    topic: str
    messages: int


_listening: "weakref.WeakValueDictionary[int, Client]" = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def _report(number: int, words: bytes, of: Optional[int]) -> None:
    client = _listening.get(of or 0)
    if client is not None:
        client._tell(error_of(number, words.decode(errors="replace")))


# One callback for all clients, never freed: the C library may still call it after a Client was collected.
_REPORTER = REPORTER(_report)


class Client(Owner):
    """A client with a unique name that listens on a topic of its own. Times are seconds, or timedeltas.

    `data_dir` is the directory of its store, `registry` where clients find each other (dir://PATH, sqlite://PATH,
    redis://HOST, none), `listen` the endpoint where others reach it, `advertise` the one they are told. `send_only`: it
    neither listens nor is registered. `metrics` is a port of 127.0.0.1, or an ADDRESS:PORT, where its statistics are
    served over HTTP to all that can connect. It keeps its name for `lease` after its last renewal. Messages with
    Durability.INTERVAL reach the disk within `interval`. `retry` is the first and the longest delay before a failed
    message is redelivered, for which the stream waits unless `skip_failing`; it is given up after `max_deliveries` (0:
    never). `dead_letter_expired`: messages of this client that expire become dead letters. A message has failed if it
    is not settled `ack_within` (0: no limit). One sent to one of several clients goes to another if that client is away
    for longer than `reassign_after` (0: never). `skip_damage` opens a damaged store without the damaged parts. Not
    `durable`: its subscriptions end with its process, and nothing is kept for it while it is away. `retain_for` and
    `retain_bytes` limit what is kept for a receiver that is away, and what is sent to all while no receiver is known (7
    days and 1 GiB; 0: no limit). `cert`, the path of its certificate (`pinnace keygen`), encrypts all traffic; it then
    talks only to the clients in `trust`, which maps names to the paths of public certificates or to keys of 40
    characters of Z85. Closing waits for handlers for `handler_linger`, and for the acknowledgement of messages of
    Durability.MEMORY for `linger`; these take at most `memory_limit` bytes, and the store `disk_limit` (a tenth of the
    file system, 4 MiB to 4 GiB; 0: no limit). A message's id counts for `deduplicate_for` (0: not at all; math.inf: as
    long as it is one of the client's 65,536 newest). Bodies have at most `max_body` bytes, and from `compress_from` are
    compressed. None is the library's default. `more` has options by their names in pinnace_delivery.h, as text.
    `on_error` is called, on any thread, with errors that no call can return; without it they are logged.

    Any thread may call it. A `with` statement closes it at its end.
    """

    _release_in_c = lib.pinnace_client_close

    def __init__(
        self,
        name: str,
        topic: str,
        *,
        topics: Iterable[str] = (),
        data_dir: Optional[FilePath] = None,
        registry: Optional[str] = None,
        listen: Optional[str] = None,
        advertise: Optional[str] = None,
        send_only: bool = False,
        metrics: Optional[str] = None,
        lease: Optional[Seconds] = None,
        interval: Optional[Seconds] = None,
        retry: Optional[tuple[Seconds, Seconds]] = None,
        max_deliveries: int = 0,
        dead_letter_expired: bool = False,
        ack_within: Optional[Seconds] = None,
        skip_failing: bool = False,
        reassign_after: Optional[Seconds] = None,
        skip_damage: bool = False,
        durable: bool = True,
        retain_for: Optional[Seconds] = None,
        retain_bytes: Optional[int] = None,
        peers: Iterable[Peer] = (),
        cert: Optional[FilePath] = None,
        trust: Mapping[str, FilePath] = MappingProxyType({}),
        linger: Optional[Seconds] = None,
        handler_linger: Seconds = 10.0,
        deduplicate_for: Optional[Seconds] = None,
        memory_limit: Optional[int] = None,
        disk_limit: Optional[int] = None,
        max_body: Optional[int] = None,
        compress_from: Optional[int] = None,
        more: Mapping[str, str] = MappingProxyType({}),
        on_error: Optional[Callable[[Error], None]] = None,
    ) -> None:
        self._on_error = on_error
        self._threads: list[threading.Thread] = []
        self._loops = Loops()
        self._handler_linger = float(more.get("handler_linger_ms", in_s(handler_linger) * 1000)) / 1000
        self._signals = _signals.Mask()
        first, most = retry or (None, None)
        given = dict(
            data_dir=data_dir, registry=registry, listen=listen, advertise=advertise, send_only=send_only,
            metrics=metrics, lease=lease, interval=interval, retry_first=first, retry_most=most,
            max_deliveries=max_deliveries, dead_letter_expired=dead_letter_expired, ack_within=ack_within,
            skip_failing=skip_failing, reassign_after=reassign_after, skip_damage=skip_damage, durable=durable,
            retain_for=retain_for, retain_bytes=retain_bytes, linger=linger, handler_linger=handler_linger,
            deduplicate_for=deduplicate_for, memory_limit=memory_limit, disk_limit=disk_limit, max_body=max_body,
            compress_from=compress_from,
        )
        settings = in_c_terms(given, more)
        # For pinnace.outbox.relay.
        self._deduplicates_forever = settings.get("deduplicate_for_ms") == FOREVER
        self._relaying = threading.Lock()
        with client_options(name, topic, settings) as options:
            add_topics(options, topics, peers)
            secure(options, cert, trust)
            self._handle = lib.pinnace_client_start(options)
            if self._handle is None:
                raise last_error()
        number = next(_numbers)
        _listening[number] = self
        checked(lib.pinnace_client_on_error(self._handle, _REPORTER, number))

    @property
    def in_hand(self) -> int:
        """How many received messages are in hand: with a handler or a Delivery, and not settled."""
        number = ctypes.c_uint64()
        checked(lib.pinnace_client_in_hand(self._handle, ctypes.byref(number)))
        return number.value

    def drain(self, timeout: Optional[float] = None) -> None:
        """Stops receiving, for good: calls that wait for a message, now or later, raise Closed. Sending and settling
        continue, so handlers can send their results. Returns once every delivery in hand is settled, what was
        acknowledged is on the disk, and messages of Durability.MEMORY are acknowledged. Raises TimedOut, and can be
        called again. A handler that calls it does not wait for itself. In a coroutine: asyncio.to_thread."""
        in_slices(timeout, lambda ms: checked(lib.pinnace_client_drain(self._handle, ms)))

    def close(self, timeout: Optional[float] = None) -> None:
        """Calls that wait raise Closed. Waits for handlers, at most `handler_linger`; returns at once if a handler
        calls it.

        With `timeout`, drains before, then ends the client in any case, and waits for handlers no longer than that.
        Raises TimedOut if something was not settled, or a handler has not returned. A handler that calls it does not
        wait for itself. A handler that takes longer goes on in its thread, which does not keep the interpreter from
        exiting."""
        if timeout is None:
            self._end(self._handler_linger)
            return
        deadline = time.monotonic() + timeout
        late: Optional[Error] = None
        if self._handle is not None:
            try:
                self.drain(timeout)
            except Closed:
                pass  # Another thread has closed it meanwhile.
            except Error as error:
                late = error
        left = self._end(max(0.0, deadline - time.monotonic()), within=True) or late
        if left is not None:
            raise left

    def _end(self, linger: float, within: bool = False) -> Optional[Error]:
        """Ends the client, and joins its threads. Returns an error if a handler has not returned."""
        deadline = time.monotonic() + linger
        error: Optional[Error] = None
        handle = self._take()
        if handle is not None:
            ended = lib.pinnace_client_close_within(handle, 0) if within else lib.pinnace_client_close(handle)
            error = last_error() if ended < 0 else None
        # A handler does not join: two handlers that close each other's clients would deadlock.
        for thread in self._threads if _inside.handlers == 0 else ():
            thread.join(max(_MOMENT_S, deadline - time.monotonic()))
            if thread.is_alive():
                error = TimedOut(errno.ETIMEDOUT, "the client has ended, but a handler has not returned")
        return error if isinstance(error, TimedOut) else None

    @property
    def name(self) -> str:
        return text(lib.pinnace_client_name(self._handle))

    @property
    def endpoint(self) -> str:
        """The endpoint where other clients reach this one."""
        return text(lib.pinnace_client_endpoint(self._handle))

    @property
    def store_id(self) -> str:
        """Its id in its store: 32 hexadecimal digits, random. A client of this name in another store has another."""
        return text(lib.pinnace_client_store_id(self._handle))

    def subscribe(self, topic: str) -> None:
        """Listens on a further topic."""
        checked(lib.pinnace_client_subscribe(self._handle, in_c(topic)))

    def unsubscribe(self, topic: str) -> None:
        """Stops listening on a topic. Messages that were sent to it before are still delivered."""
        checked(lib.pinnace_client_unsubscribe(self._handle, in_c(topic)))

    def addresses(self, topic: str) -> list[str]:
        """The endpoints of the clients known to listen on a topic."""
        return text_of(lib.pinnace_client_addresses, self._handle, in_c(topic)).split("\n")[:-1]

    def statistics(self) -> dict[str, Any]:
        """What the client has sent and received, what is pending, its connections and its store, by the names in
        docs/reference/delivery.md."""
        found: dict[str, Any] = json.loads(text_of(lib.pinnace_client_statistics_json, self._handle))
        return found

    def statistics_prometheus(self) -> str:
        """The same in Prometheus' text format."""
        return text_of(lib.pinnace_client_statistics_prometheus, self._handle)

    @property
    def metrics_address(self) -> str:
        """Where the statistics are served, as ADDRESS:PORT. An Error with ENOENT: they are not."""
        return text_of(lib.pinnace_client_metrics_address, self._handle)

    def registry_error(self) -> Optional[Error]:
        """The current error of the registry: the client is not registered, or cannot read the other clients. It
        retries on its own."""
        if lib.pinnace_client_registry_error(self._handle) == 0:
            return None
        error = last_error()
        if isinstance(error, Closed):
            raise error
        return error

    def forget(self, name: str) -> None:
        """Ends all subscriptions of a client that is gone for good; what is kept for it is dropped. Raises NameTaken if
        it lives."""
        checked(lib.pinnace_client_forget(self._handle, in_c(name)))

    def clear_addresses(self, topic: str) -> int:
        """Ends the subscriptions of a topic by dead clients. Returns their number."""
        return checked(lib.pinnace_client_clear_addresses(self._handle, in_c(topic)))

    def send_to(self, topic: str, body: Body) -> None:
        """Sends to one of the clients that listen on a topic, the first that is free. Returns once the message is on
        this machine's disk."""
        self.send(topic, body)

    def send_all(self, topic: str, body: Body) -> int:
        """Sends to each client that listens on a topic, and to each that is away and has not unsubscribed.
        Returns the number of these receivers; 0: it is kept for those to come."""
        ticket = self.send_async(topic, body, all=True)
        self.wait(ticket)
        return ticket.receivers

    def send(
        self,
        topic: str,
        body: Body,
        *,
        all: bool = False,
        durability: Durability = Durability.SYNC,
        ttl: Optional[float] = None,
        timeout: Optional[float] = None,
        id: Optional[str] = None,
        content_type: Optional[str] = None,
        traceparent: Optional[str] = None,
        tracestate: Optional[str] = None,
        ordering_key: Optional[str] = None,
        headers: Headers = MappingProxyType({}),
    ) -> None:
        """`ttl` is the message's time to live, `timeout` how long to wait for room and the disk. After TimedOut the
        message may be stored, or may be stored later. `id`, `content_type`, the W3C trace context, the ordering key and
        `headers` (at most 64) go with the body, 16 KiB in all. A further message with the same id on this topic is
        taken for a retry within the client's `deduplicate_for`, and is not stored again. Messages to one with the same
        `ordering_key` (1 to 255 bytes) go to the same client while it lives, in order; messages to all ignore it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with_body = dict(id=id, content_type=content_type, traceparent=traceparent, tracestate=tracestate,
                         ordering_key=ordering_key)
        ticket = self.send_async(topic, body, all=all, durability=durability, ttl=ttl, timeout=timeout, headers=headers,
                                 **with_body)
        if durability == Durability.SYNC:
            self.wait(ticket, None if deadline is None else max(0.0, deadline - time.monotonic()))

    def send_async(
        self,
        topic: str,
        body: Body,
        *,
        all: bool = False,
        durability: Durability = Durability.SYNC,
        ttl: Optional[float] = None,
        timeout: Optional[float] = None,
        id: Optional[str] = None,
        content_type: Optional[str] = None,
        traceparent: Optional[str] = None,
        tracestate: Optional[str] = None,
        ordering_key: Optional[str] = None,
        headers: Headers = MappingProxyType({}),
    ) -> Ticket:
        """Like send, but does not wait for the disk; `wait` does, with the ticket."""
        to, ticket = in_c(topic), ctypes.c_uint64()
        content = body_in_c(body)

        texts = id, content_type, traceparent, tracestate, ordering_key
        options = send_options(all, durability, ttl, *texts, headers)

        def send(ms: int) -> int:
            options.timeout_ms = ms
            given = ctypes.byref(options), ctypes.byref(ticket)
            return checked(lib.pinnace_client_send_async(self._handle, to, content, len(content), *given))

        # After a timeout for lack of room nothing was sent, so the call may be repeated. A message in parts may take
        # longer than one slice, so its slices grow.
        receivers = in_slices(timeout, send, 2.0 if len(content) > PART else 1.0)
        return Ticket(ticket.value, receivers)

    def wait(self, ticket: Ticket, timeout: Optional[float] = None) -> None:
        """Waits until a message is on the disk."""
        in_slices(timeout, lambda ms: checked(lib.pinnace_client_wait(self._handle, ticket, ms)))

    def ack_and_send(
        self, delivery: Delivery, messages: Iterable[NewMessage] = (), timeout: Optional[float] = None
    ) -> None:
        """Consumes and produces in one step: acknowledges a delivery of this client and sends messages, at most 8 MiB
        and a sixteenth of `disk_limit`. A crash leaves all of it or nothing. Returns once all of it is on this
        machine's disk; if there are messages and all have Durability.INTERVAL, it will be. If it raises, and the
        delivery is not `settled`, nothing was acknowledged or sent; if it is settled, all was accepted, but was not
        known to be on the disk when the time was over or the store failed. An Error with ESTALE: the delivery no longer
        counts. In a coroutine: asyncio.to_thread."""
        listed, deadline = list(messages), None if timeout is None else time.monotonic() + timeout
        ticket = ack_and_send(self._handle, delivery, listed, timeout)
        if not listed or any(each.durability == Durability.SYNC for each in listed):
            self.wait(ticket, None if deadline is None else max(0.0, deadline - time.monotonic()))

    @property
    def pending(self) -> int:
        """How many messages are not acknowledged yet."""
        number = ctypes.c_uint64()
        checked(lib.pinnace_client_pending(self._handle, ctypes.byref(number)))
        return number.value

    def pending_by_peer(self) -> list[Pending]:
        """The same by receiver and topic, including those with nothing pending."""
        found: list[Pending] = []

        def add(receiver: Optional[bytes], topic: bytes, messages: int, _: Optional[int]) -> None:
            name = None if receiver is None else receiver.decode(errors="replace")
            found.append(Pending(name, topic.decode(errors="replace"), messages))

        checked(lib.pinnace_client_pending_by_peer(self._handle, PENDING(add), None))
        return found

    def clear_pending(self, topic: str) -> int:
        """Discards the pending messages of a topic. Returns the number of messages."""
        number = ctypes.c_uint64()
        checked(lib.pinnace_client_clear_pending(self._handle, in_c(topic), ctypes.byref(number)))
        return number.value

    def wait_listeners(self, topic: str, count: int, timeout: Optional[float] = None) -> None:
        """Waits until at least `count` clients listen on a topic, of which it may be one."""
        name = in_c(topic)
        in_slices(timeout, lambda ms: checked(lib.pinnace_client_wait_listeners(self._handle, name, count, ms)))

    def wait_pending(self, most: int = 0, timeout: Optional[float] = None) -> None:
        """Waits until at most `most` messages are pending."""
        in_slices(timeout, lambda ms: checked(lib.pinnace_client_wait_pending(self._handle, most, ms)))

    def _recv(self, ms: int) -> int:
        handle = lib.pinnace_client_recv(self._handle, ms)
        if handle is None:
            raise last_error()
        return int(handle)

    def recv(self, timeout: Optional[float] = None) -> Delivery:
        """The next message. Raises TimedOut, or Closed."""
        return Delivery(in_slices(timeout, self._recv))

    def __iter__(self) -> Iterator[Delivery]:
        """Messages, until the client is closed. The caller settles each."""
        while True:
            try:
                yield self.recv()
            except Closed:
                return

    async def recv_async(self) -> Delivery:
        """The next message, in a coroutine. The event loop polls the client's descriptor, and no thread waits. Raises
        Closed. A coroutine that is cancelled, as by asyncio.wait_for, has taken no message. A Delivery that is
        garbage-collected before anything was called on it goes back uncounted, as by Delivery.give_back: a task may be
        cancelled after it has received one."""
        here = self._loops.running(self.fileno)
        await here.turn()
        while True:
            try:
                return Delivery(self._recv(0), is_seen=False)
            except TimedOut:
                await here.readable()

    def __aiter__(self) -> AsyncIterator[Delivery]:
        """Messages by recv_async, until the client is closed. The caller settles each."""
        return Deliveries(self.recv_async)

    def fileno(self) -> int:
        """A descriptor for select and event loops. It is readable while a message may be ready, and once the client is
        drained or closed: then call recv(0). It stays readable until a receive finds no message. It belongs to the
        client: remove it from the loop before the client is closed."""
        return checked(lib.pinnace_client_fd(self._handle))

    def run(self, handler: Handler) -> None:
        """Calls a handler with one message after the other, until the handler returns Verdict.STOP. Raises Closed if
        the client is closed before. If the handler raises, the message has failed, and run raises the same."""
        self._run(handler, contextlib.nullcontext())

    def _run(self, handler: Handler, signals: AbstractContextManager[None]) -> None:
        verdict: Optional[Verdict] = None
        while verdict is None or not verdict & Verdict.STOP:
            delivery = self.recv()
            with delivery:
                handle = delivery._handle
                _inside.handlers += 1
                try:
                    lib.pinnace_handler_enter(handle)
                    with signals:
                        verdict = handler(delivery)
                finally:
                    lib.pinnace_handler_leave(handle)
                    _inside.handlers -= 1
                if verdict is not None:
                    delivery.settle(verdict)

    def listen(self, handler: Handler) -> None:
        """Like run, on a thread of its own. If the handler raises, the message has failed, `on_error` is called, and
        the thread goes on. The thread blocks signals while it waits. The handler, and processes that it starts, have
        the signal mask of the thread that started the client."""
        thread = threading.Thread(target=self._listen, args=(handler,), name=f"pinnace {self.name}", daemon=True)
        self._threads.append(thread)
        _signals.start(thread)

    def _listen(self, handler: Handler) -> None:
        signals = _signals.AsStarted(self._signals)
        while True:
            try:
                return self._run(handler, signals)
            except Closed:
                return
            except Exception as error:
                with signals:
                    self._tell(error)

    def _tell(self, error: Exception) -> None:
        if self._on_error is None:
            _log.error("%s", error, exc_info=error)
        else:
            self._on_error(error if isinstance(error, Error) else Error(0, repr(error)))
