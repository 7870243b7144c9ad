"""A received message, and the verdicts on it."""
import ctypes
import enum
import errno
from types import TracebackType
from typing import NamedTuple, Optional

from ._library import Closed, CursorStruct, ReceivedHeader, checked, last_error, lib, milliseconds, text


class Verdict(enum.IntFlag):
    """What happens to a message when its handler returns. `| STOP`: call the handler no more."""

    ACK = 0  # handled successfully
    FAIL = 1  # failed: redelivered later, before the next of its stream
    NACK = 2  # redelivered later; other messages go first
    TERMINATE = 3  # given up: its sender keeps a dead letter
    STOP = 16


class Reason(enum.IntEnum):
    """Why a message was given up."""

    TERMINATED = 0  # its receiver terminated it
    DELIVERIES = 1  # it reached max_deliveries
    TOO_LARGE = 2  # it is larger than its receiver accepts
    UNREADABLE = 3  # it cannot be decompressed, or its headers cannot be read
    EXPIRED = 4  # its time to live was over: `dead_letter_expired` of its sender


class Dead(NamedTuple):
    """The history of a dead letter."""

    topic: str  # its original topic
    receiver: str  # the receiver that gave it up
    reason: Reason
    deliveries: int


class Cursor(NamedTuple):
    """Identifies a message. A receiver stores it with the message's effect in one transaction: see CURSOR_SCHEMA."""

    sender: str  # the store that it comes from: 32 hexadecimal digits
    stream: int  # the stream of that store that it belongs to
    number: int  # its number in the stream; later messages have larger ones
    settled: int  # no message of the stream up to this number is delivered again


CURSOR_SCHEMA: str = text(lib.pinnace_cursor_schema())
"""The SQL that creates the table of cursors; SQLite, PostgreSQL, MySQL and others understand it.

For each message, in one transaction: insert client, sender, stream and number. If that row exists already, the message
is a redelivery: roll back and acknowledge it. Otherwise apply the effect, delete the rows of the same client, sender
and stream with numbers up to `settled`, commit, and acknowledge."""


class Delivery:
    """A received message, until it is settled by ack, nack, terminate, fail or give_back.

    As a context manager it is acknowledged at the end, or fails on an exception, unless it was settled within. A
    message that is garbage-collected unsettled has failed; one from Client.recv_async on which nothing was called goes
    back uncounted.
    """

    __slots__ = ("_body", "_held", "_is_seen")

    def __init__(self, handle: int, is_seen: bool = True) -> None:
        self._held: Optional[int] = handle
        self._is_seen = is_seen
        self._body: Optional[bytes] = None

    @property
    def _handle(self) -> Optional[int]:
        """Of the C library. From the first use on, the message has been seen."""
        self._is_seen = True
        return self._held

    @property
    def body(self) -> bytes:
        if self._body is None:
            data = lib.pinnace_delivery_body(self._handle)
            if data is None:
                raise last_error()
            self._body = ctypes.string_at(data, lib.pinnace_delivery_size(self._handle))
        return self._body

    def _look(self) -> None:
        """Raises Closed if the message is settled. For C functions without a return value for errors."""
        text(lib.pinnace_delivery_from(self._handle))

    @property
    def sender(self) -> str:
        """The name of the client that sent it."""
        return text(lib.pinnace_delivery_from(self._handle))

    @property
    def topic(self) -> str:
        return text(lib.pinnace_delivery_topic(self._handle))

    @property
    def accepted(self) -> float:
        """When the sender accepted the message, in seconds since 1970, by the sender's clock."""
        self._look()
        return int(lib.pinnace_delivery_accepted_ms(self._handle)) / 1000

    @property
    def deliveries(self) -> int:
        """Number of deliveries, this one included; with `max_deliveries` also those recorded before a crash."""
        self._look()
        return int(lib.pinnace_delivery_deliveries(self._handle))

    @property
    def cursor(self) -> Cursor:
        """What to store with the message's effect, so that the effect happens exactly once, even after a crash."""
        found = CursorStruct()
        checked(lib.pinnace_delivery_cursor(self._handle, ctypes.byref(found)))
        return Cursor(found.sender.decode(), found.stream, found.number, found.settled)

    def _optional(self, found: Optional[bytes]) -> Optional[str]:
        if found is None and ctypes.get_errno() == errno.ENOENT:
            return None
        return text(found)

    @property
    def id(self) -> Optional[str]:
        """The message's id, if its sender gave it one."""
        return self._optional(lib.pinnace_delivery_id(self._handle))

    @property
    def content_type(self) -> Optional[str]:
        return self._optional(lib.pinnace_delivery_content_type(self._handle))

    @property
    def traceparent(self) -> Optional[str]:
        """Of the W3C trace context."""
        return self._optional(lib.pinnace_delivery_traceparent(self._handle))

    @property
    def tracestate(self) -> Optional[str]:
        return self._optional(lib.pinnace_delivery_tracestate(self._handle))

    @property
    def ordering_key(self) -> Optional[str]:
        """Messages to one with the same key go to the same client while it lives, in order."""
        return self._optional(lib.pinnace_delivery_ordering_key(self._handle))

    @property
    def headers(self) -> dict[str, bytes]:
        """In the sender's order."""
        self._look()
        found, header = {}, ReceivedHeader()
        for at in range(lib.pinnace_delivery_headers(self._handle)):
            checked(lib.pinnace_delivery_header_at(self._handle, at, ctypes.byref(header)))
            found[header.key.decode()] = ctypes.string_at(header.value, header.size)
        return found

    @property
    def dead(self) -> Optional[Dead]:
        """None if the message is not a dead letter."""
        reason = lib.pinnace_delivery_dead_reason(self._handle)
        if reason < 0 and ctypes.get_errno() == errno.ENOENT:
            return None
        return Dead(
            topic=text(lib.pinnace_delivery_dead_topic(self._handle)),
            receiver=text(lib.pinnace_delivery_dead_receiver(self._handle)),
            reason=Reason(checked(reason)),
            deliveries=lib.pinnace_delivery_dead_deliveries(self._handle),
        )

    @property
    def settled(self) -> bool:
        return self._handle is None

    def in_progress(self) -> None:
        """The message is still being handled: restarts `ack_within_ms`."""
        checked(lib.pinnace_delivery_in_progress(self._handle))

    def _release(self) -> Optional[int]:
        handle, self._held = self._handle, None
        return handle

    def ack(self) -> None:
        """Handled successfully: not delivered again."""
        checked(lib.pinnace_delivery_ack(self._release()))

    def nack(self, delay: Optional[float] = None) -> None:
        """Redelivered after `delay` seconds; None: after a growing delay. Other messages go first."""
        checked(lib.pinnace_delivery_nack(self._release(), milliseconds(delay)))

    def terminate(self) -> None:
        """Given up: its sender keeps it as a dead letter."""
        checked(lib.pinnace_delivery_terminate(self._release()))

    def fail(self) -> None:
        """Failed: redelivered later, before the next of its stream."""
        checked(lib.pinnace_delivery_fail(self._release()))

    def give_back(self) -> None:
        """As if it had not been received: it is the next of its stream again, and this delivery does not count."""
        checked(lib.pinnace_delivery_give_back(self._release()))

    def settle(self, verdict: Verdict) -> None:
        """Settles the message by a handler's verdict. Does nothing if it is settled already."""
        if self.settled:
            return
        verdict &= ~Verdict.STOP
        if verdict == Verdict.ACK:
            self.ack()
        elif verdict == Verdict.NACK:
            self.nack()
        elif verdict == Verdict.TERMINATE:
            self.terminate()
        else:
            self.fail()

    def __enter__(self) -> "Delivery":
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self.settle(Verdict.ACK if kind is None else Verdict.FAIL)
        except Closed:
            if kind is None:
                raise

    def __del__(self) -> None:
        handle, self._held = self._held, None
        if handle is None:
            return
        if self._is_seen:
            lib.pinnace_delivery_fail(handle)
        else:
            lib.pinnace_delivery_give_back(handle)
