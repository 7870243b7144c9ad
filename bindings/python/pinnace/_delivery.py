"""A message that has arrived, and what can be said of it."""
import ctypes
import enum
import errno
from types import TracebackType
from typing import NamedTuple, Optional

from ._library import Closed, CursorStruct, checked, last_error, lib, milliseconds, text


class Verdict(enum.IntFlag):
    """What becomes of a message when its handler returns. `| STOP`: and it was the last."""

    ACK = 0  # it is handled
    FAIL = 1  # it is the next of its stream again, after a while
    NACK = 2  # again after a while; others go first
    TERMINATE = 3  # it never will be handled: its sender has a dead letter
    STOP = 16


class Reason(enum.IntEnum):
    """Why a message was given up."""

    TERMINATED = 0  # its handler said so
    DELIVERIES = 1  # it was delivered as often as it may be
    TOO_LARGE = 2  # for its receiver
    UNREADABLE = 3  # it is compressed, and cannot be read


class Dead(NamedTuple):
    """What is known of a dead letter."""

    topic: str  # where it was sent at first
    receiver: str  # who gave it up
    reason: Reason
    deliveries: int


class Cursor(NamedTuple):
    """Which message it is, beyond doubt, to be stored with its effect in one transaction: see CURSOR_SCHEMA."""

    sender: str  # the store it comes from: 32 hexadecimal digits
    stream: int  # which of that store's streams it belongs to
    number: int  # its number there; later messages have larger ones
    settled: int  # no message of the stream up to this number is delivered again


CURSOR_SCHEMA: str = text(lib.pinnace_cursor_schema())
"""A table for cursors, in SQL that SQLite, PostgreSQL, MySQL and others understand.

For each message, in one transaction: insert client, sender, stream and number. Where that row is there already, this is
the same message once more: roll back, and acknowledge it. Else bring about the effect, delete the rows of the same
client, sender and stream with numbers up to `settled`, commit, and acknowledge."""


class Delivery:
    """A message, from its arrival until it is settled: by ack, nack, terminate or fail.

    As a context manager it is acknowledged at the end, or fails by an exception, unless it was settled within. One that
    nobody settles and nobody has any more has failed.
    """

    __slots__ = ("_body", "_handle")

    def __init__(self, handle: int) -> None:
        self._handle: Optional[int] = handle
        self._body: Optional[bytes] = None

    @property
    def body(self) -> bytes:
        if self._body is None:
            data = lib.pinnace_delivery_body(self._handle)
            if data is None:
                raise last_error()
            self._body = ctypes.string_at(data, lib.pinnace_delivery_size(self._handle))
        return self._body

    def _look(self) -> None:
        """Raises Closed where it is settled, for what has no value that says so."""
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
        """When it was accepted, in seconds since 1970, by the sender's clock."""
        self._look()
        return int(lib.pinnace_delivery_accepted_ms(self._handle)) / 1000

    @property
    def deliveries(self) -> int:
        """How often it was delivered since the receiver was started, this time included."""
        self._look()
        return int(lib.pinnace_delivery_deliveries(self._handle))

    @property
    def cursor(self) -> Cursor:
        """What to store with the message's effect, so that it happens once, whatever crashes."""
        found = CursorStruct()
        checked(lib.pinnace_delivery_cursor(self._handle, ctypes.byref(found)))
        return Cursor(found.sender.decode(), found.stream, found.number, found.settled)

    @property
    def dead(self) -> Optional[Dead]:
        """None: it is no dead letter."""
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
        """It is still being handled: the time that it has begins anew (`ack_within`)."""
        checked(lib.pinnace_delivery_in_progress(self._handle))

    def _release(self) -> Optional[int]:
        handle, self._handle = self._handle, None
        return handle

    def ack(self) -> None:
        """It is handled: it is not delivered again."""
        checked(lib.pinnace_delivery_ack(self._release()))

    def nack(self, delay: Optional[float] = None) -> None:
        """It is to be delivered again after `delay` seconds, or after a while that grows; others go first."""
        checked(lib.pinnace_delivery_nack(self._release(), milliseconds(delay)))

    def terminate(self) -> None:
        """It will never be handled here: its sender keeps it as a dead letter."""
        checked(lib.pinnace_delivery_terminate(self._release()))

    def fail(self) -> None:
        """It is the next of its stream again, after a while."""
        checked(lib.pinnace_delivery_fail(self._release()))

    def settle(self, verdict: Verdict) -> None:
        """As a handler says; nothing, where it was settled before."""
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
        if self._handle is not None:
            lib.pinnace_delivery_fail(self._release())
