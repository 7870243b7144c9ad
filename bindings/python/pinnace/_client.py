"""A client: it sends to topics, and receives what others send to those that it listens on."""
import asyncio
import contextlib
import ctypes
import enum
import errno
import itertools
import logging
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType, TracebackType
from typing import Any, Callable, NamedTuple, NewType, Optional, Union

from . import _signals
from ._delivery import Delivery, Verdict
from ._library import PENDING, REPORTER, Closed, Error, SendOptions, TimedOut, checked, error_of, in_c, last_error, lib
from ._library import milliseconds, text

Handler = Callable[[Delivery], Optional[Verdict]]
"""Is called with each message; None is Verdict.ACK."""

Ticket = NewType("Ticket", int)
"""A message that is on its way to the disk. Messages come to be there in the order of their tickets."""

Body = Union[bytes, bytearray, memoryview]
"""What is sent."""

# A call into the library hears no signal: waits end so often for the interpreter to look.
_SLICE_S = 0.2
# Bytes from which on a message goes in parts.
_PART = 1 << 20
_log = logging.getLogger("pinnace")


class _Inside(threading.local):
    handlers = 0  # how many of them this thread is in


_inside = _Inside()


class Durability(enum.IntEnum):
    SYNC = 0  # on the disk before the call returns
    INTERVAL = 1  # some time after: `interval` of the client
    MEMORY = 2  # never, and lost with the process


class Peer(NamedTuple):
    """Another client that is known beforehand."""

    name: str
    endpoint: str
    topics: tuple[str, ...]


class Pending(NamedTuple):
    """What waits for one receiver on one topic."""

    receiver: Optional[str]  # None: for whoever comes first
    topic: str
    messages: int  # and parts of such


_listening: "weakref.WeakValueDictionary[int, Client]" = weakref.WeakValueDictionary()
_numbers = itertools.count(1)


def _report(number: int, words: bytes, of: Optional[int]) -> None:
    client = _listening.get(of or 0)
    if client is not None:
        client._tell(error_of(number, words.decode(errors="replace")))


# One for all clients, so that C never has one that is gone.
_REPORTER = REPORTER(_report)


class Client:
    """A client of this name, which no other has, that listens on a topic of its own. Times are in seconds.

    `data_dir` is the directory of its store, `registry` where clients know of each other (dir://PATH, sqlite://PATH,
    redis://HOST, none), `listen` the endpoint where others reach it, `lease` how long the name stays its own where it
    says nothing, `interval` how long Durability.INTERVAL may be away from the disk, `retry` the first and the longest
    wait before a message that failed comes again; after `max_deliveries` it is given up. `skip_damage` opens a damaged
    store without what is damaged. With `cert`, the path of a certificate (`pinnace keygen`), all is encrypted, and it
    speaks to those alone whose public keys, 40 characters of Z85, `trust` has by their names. `more` are options by the
    names that pinnace.h has for them, as text. `on_error` hears of what goes wrong where no call tells of it, on any
    thread; without it the log does.

    Any thread may call it. It is closed at the end of a `with`.
    """

    def __init__(
        self,
        name: str,
        topic: str,
        *,
        data_dir: Union[str, "os.PathLike[str]", None] = None,
        registry: Optional[str] = None,
        listen: Optional[str] = None,
        lease: Optional[float] = None,
        interval: Optional[float] = None,
        retry: Optional[tuple[float, float]] = None,
        max_deliveries: int = 0,
        skip_damage: bool = False,
        peers: Iterable[Peer] = (),
        cert: Union[str, "os.PathLike[str]", None] = None,
        trust: Mapping[str, str] = MappingProxyType({}),
        more: Mapping[str, str] = MappingProxyType({}),
        on_error: Optional[Callable[[Error], None]] = None,
    ) -> None:
        self._handle: Optional[int] = None
        self._on_error = on_error
        self._threads: list[threading.Thread] = []
        self._signals = _signals.Mask()
        settings: dict[str, Optional[bytes]] = {
            "data_dir": None if data_dir is None else os.fsencode(data_dir),
            "registry": None if registry is None else in_c(registry),
            "listen": None if listen is None else in_c(listen),
            "lease_ms": _number(lease),
            "interval_ms": _number(interval),
            "retry_first_ms": _number(retry and retry[0]),
            "retry_most_ms": _number(retry and retry[1]),
            "max_deliveries": str(max_deliveries).encode(),
            "skip_damage": b"1" if skip_damage else b"0",
            **{key: in_c(value) for key, value in more.items()},
        }
        options = lib.pinnace_client_options_new(in_c(name), in_c(topic))
        if options is None:
            raise last_error()
        try:
            for key, value in settings.items():
                if value is not None:
                    checked(lib.pinnace_client_options_set(options, in_c(key), value))
            for peer in peers:
                topics = (ctypes.c_char_p * len(peer.topics))(*map(in_c, peer.topics))
                known = in_c(peer.name), in_c(peer.endpoint)
                checked(lib.pinnace_client_options_peer(options, *known, topics, len(topics)))
            if cert is not None:
                _encrypt(options, os.fsencode(cert))
            for who, key in trust.items():
                checked(lib.pinnace_client_options_trust(options, in_c(who), in_c(key)))
            self._handle = lib.pinnace_client_start(options)
            if self._handle is None:
                raise last_error()
        finally:
            lib.pinnace_client_options_destroy(options)
        number = next(_numbers)
        _listening[number] = self
        checked(lib.pinnace_client_on_error(self._handle, _REPORTER, number))

    def close(self) -> None:
        """Ends receiving and waiting, with Closed. Called by a handler it returns at once."""
        handle, self._handle = self._handle, None
        if handle is not None:
            lib.pinnace_client_close(handle)
        # Handlers may close each other's clients.
        for thread in self._threads if _inside.handlers == 0 else ():
            thread.join()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            lib.pinnace_client_close(self._handle)

    @property
    def name(self) -> str:
        return text(lib.pinnace_client_name(self._handle))

    @property
    def endpoint(self) -> str:
        """Where others reach it."""
        return text(lib.pinnace_client_endpoint(self._handle))

    def subscribe(self, topic: str) -> None:
        """Listens on a further topic."""
        checked(lib.pinnace_client_subscribe(self._handle, in_c(topic)))

    def unsubscribe(self, topic: str) -> None:
        """Does not listen on a topic any more. What others have sent by then still comes."""
        checked(lib.pinnace_client_unsubscribe(self._handle, in_c(topic)))

    def addresses(self, topic: str) -> list[str]:
        """Where those are that listen on a topic, as far as this client knows."""
        size = ctypes.c_size_t(256)
        while True:
            room = ctypes.create_string_buffer(size.value)
            found = lib.pinnace_client_addresses(self._handle, in_c(topic), room, ctypes.byref(size))
            if found >= 0:
                return room.value.decode(errors="replace").split("\n")[:found]
            if size.value <= len(room):
                raise last_error()

    def registry_error(self) -> Optional[Error]:
        """What keeps it from being known in its registry, or from knowing who is there. It is tried again and again."""
        if lib.pinnace_client_registry_error(self._handle) == 0:
            return None
        error = last_error()
        if isinstance(error, Closed):
            raise error
        return error

    def clear_addresses(self, topic: str) -> int:
        """Clears away what dead clients left of themselves in the registry on a topic. Returns how many that were."""
        return checked(lib.pinnace_client_clear_addresses(self._handle, in_c(topic)))

    def send_to(self, topic: str, body: Body) -> None:
        """Sends to one of those that listen on a topic, in turn; where nobody does, to the first that will. It is on
        this machine's disk when this returns."""
        self.send(topic, body)

    def send_all(self, topic: str, body: Body) -> None:
        """Sends to each of those that listen on a topic."""
        self.send(topic, body, all=True)

    def send(
        self,
        topic: str,
        body: Body,
        *,
        all: bool = False,
        durability: Durability = Durability.SYNC,
        ttl: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """`ttl`: how long it may live; `timeout`: how long to wait for room and the disk. After TimedOut it may be on
        the disk, or come to be."""
        deadline = None if timeout is None else time.monotonic() + timeout
        ticket = self.send_async(topic, body, all=all, durability=durability, ttl=ttl, timeout=timeout)
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
    ) -> Ticket:
        """As send, without waiting for the disk: `wait` does."""
        to, ticket = in_c(topic), ctypes.c_uint64()
        content = body if isinstance(body, bytes) else bytes(memoryview(body))

        def send(ms: int) -> int:
            options = _options(all, durability, ttl, ms)
            given = ctypes.byref(options), ctypes.byref(ticket)
            return checked(lib.pinnace_client_send_async(self._handle, to, content, len(content), *given))

        # What has found no room in time was not sent. One in parts may take longer than a slice.
        _in_slices(timeout, send, 2.0 if len(content) > _PART else 1.0)
        return Ticket(ticket.value)

    def wait(self, ticket: Ticket, timeout: Optional[float] = None) -> None:
        """Waits until a message is on the disk."""
        _in_slices(timeout, lambda ms: checked(lib.pinnace_client_wait(self._handle, ticket, ms)))

    @property
    def pending(self) -> int:
        """How many messages, and parts of such, nobody has yet said to have."""
        number = ctypes.c_uint64()
        checked(lib.pinnace_client_pending(self._handle, ctypes.byref(number)))
        return number.value

    def pending_by_peer(self) -> list[Pending]:
        """The same by receiver and topic, those with none among them."""
        found: list[Pending] = []

        def add(receiver: Optional[bytes], topic: bytes, messages: int, _: Optional[int]) -> None:
            name = None if receiver is None else receiver.decode(errors="replace")
            found.append(Pending(name, topic.decode(errors="replace"), messages))

        checked(lib.pinnace_client_pending_by_peer(self._handle, PENDING(add), None))
        return found

    def clear_pending(self, topic: str) -> int:
        """Forgets what waits on a topic. Returns how many messages, and parts of such, that were."""
        number = ctypes.c_uint64()
        checked(lib.pinnace_client_clear_pending(self._handle, in_c(topic), ctypes.byref(number)))
        return number.value

    def wait_pending(self, most: int = 0, timeout: Optional[float] = None) -> None:
        """Waits until so many, or fewer, are pending."""
        _in_slices(timeout, lambda ms: checked(lib.pinnace_client_wait_pending(self._handle, most, ms)))

    def _recv(self, ms: int) -> int:
        handle = lib.pinnace_client_recv(self._handle, ms)
        if handle is None:
            raise last_error()
        return int(handle)

    def recv(self, timeout: Optional[float] = None) -> Delivery:
        """The next message. Raises TimedOut, or Closed."""
        return Delivery(_in_slices(timeout, self._recv))

    def __iter__(self) -> Iterator[Delivery]:
        """Messages, until the client is closed. Each is to be settled."""
        while True:
            try:
                yield self.recv()
            except Closed:
                return

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """The same; a thread of the loop's waits for each."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                # One that comes when nobody waits any more is let go, and comes again.
                delivery = await loop.run_in_executor(None, self.recv, _SLICE_S)
            except TimedOut:
                continue
            except Closed:
                return
            yield delivery

    def run(self, handler: Handler) -> None:
        """Calls a handler with one message after the other, until it says Verdict.STOP; Closed where it is closed
        before. One in which it raises has failed, and what it raised comes out here."""
        self._run(handler, contextlib.nullcontext())

    def _run(self, handler: Handler, signals: AbstractContextManager[None]) -> None:
        verdict: Optional[Verdict] = None
        while verdict is None or not verdict & Verdict.STOP:
            delivery = self.recv()
            with delivery:
                _inside.handlers += 1
                try:
                    with signals:
                        verdict = handler(delivery)
                finally:
                    _inside.handlers -= 1
                if verdict is not None:
                    delivery.settle(verdict)

    def listen(self, handler: Handler) -> None:
        """Does so on a thread of its own. A message in which the handler raises has failed, `on_error` hears of it, and
        it goes on. The thread blocks signals while it waits; the handler, and a process that it starts, has the signal
        mask of the thread that started the client."""
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


def _encrypt(options: Any, path: bytes) -> None:
    cert = lib.pinnace_cert_load(path)
    if cert is None:
        raise error_of(ctypes.get_errno(), lib.pinnace_cert_error().decode(errors="replace"))
    try:
        checked(lib.pinnace_client_options_curve(options, cert))
    finally:
        lib.pinnace_cert_destroy(cert)


def _number(seconds: Optional[float]) -> Optional[bytes]:
    return None if seconds is None else str(milliseconds(seconds)).encode()


def _options(all: bool, durability: Durability, ttl: Optional[float], timeout_ms: int) -> SendOptions:
    # Of 0 C makes for ever, and of less an error.
    ttl_ms = 0 if ttl is None else max(1, milliseconds(ttl)) if ttl > 0 else -1
    return SendOptions(ctypes.sizeof(SendOptions), timeout_ms, ttl_ms, int(all), int(durability))


def _in_slices(timeout: Optional[float], call: Callable[[int], int], growth: float = 1.0) -> int:
    """Calls with a time in milliseconds, again and again, until it is not over when it returns, or `timeout` is. Each
    time is `growth` times the last."""
    deadline, slice_s = None if timeout is None else time.monotonic() + timeout, _SLICE_S
    while True:
        left = slice_s if deadline is None else min(slice_s, max(0.0, deadline - time.monotonic()))
        slice_s *= growth
        try:
            return call(milliseconds(left))
        except Error as error:
            is_early = deadline is None or time.monotonic() < deadline
            if not is_early or error.errno not in (errno.EAGAIN, errno.ENOSPC):
                raise
