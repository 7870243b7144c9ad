"""How a message is sent, and what goes with its body."""
import ctypes
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Optional, Union

from ._library import Header, SendOptions, in_c, milliseconds

PART = 1 << 20
"""Larger messages are sent in parts."""

Body = Union[bytes, bytearray, memoryview]
"""The bytes of a message."""

Headers = Mapping[str, Union[Body, str]]
"""Headers of a message: keys of 1 to 255 bytes, and values; a text is sent as UTF-8."""


class Durability(enum.IntEnum):
    SYNC = 0  # on the disk before the call returns
    INTERVAL = 1  # on the disk later, within the client's `interval`
    MEMORY = 2  # never on the disk; lost with the process


class NewMessage(NamedTuple):
    """A message for Client.ack_and_send, with the arguments of Client.send."""

    topic: str
    body: Body
    all: bool = False
    durability: Durability = Durability.SYNC
    ttl: Optional[float] = None
    id: Optional[str] = None
    content_type: Optional[str] = None
    traceparent: Optional[str] = None
    tracestate: Optional[str] = None
    ordering_key: Optional[str] = None
    headers: Headers = MappingProxyType({})


class Ticket(int):
    """A message on its way to the disk. Messages reach the disk in the order of their tickets."""

    receivers: int
    """The number of receivers of a message to all; 0: it is kept for those to come."""

    def __new__(cls, number: int, receivers: int = 0) -> "Ticket":
        ticket = super().__new__(cls, number)
        ticket.receivers = receivers
        return ticket


def send_options(
    all: bool,
    durability: Durability,
    ttl: Optional[float],
    id: Optional[str],
    content_type: Optional[str],
    traceparent: Optional[str],
    tracestate: Optional[str],
    ordering_key: Optional[str],
    headers: Headers,
) -> SendOptions:
    """The options in C, without a timeout. ValueError: a text has a NUL."""
    # In C, ttl_ms 0 means no limit, and a negative one is an error.
    ttl_ms = 0 if ttl is None else max(1, milliseconds(ttl)) if ttl > 0 else -1
    texts = [None if text is None else in_c(text) for text in (id, content_type, traceparent, tracestate)]
    values = [value.encode() if isinstance(value, str) else bytes(value) for value in headers.values()]
    # The structures keep what they point to alive.
    pairs = [Header(in_c(key), value, len(value)) for key, value in zip(headers, values)]
    listed = (Header * len(pairs))(*pairs)
    size, key = ctypes.sizeof(SendOptions), None if ordering_key is None else in_c(ordering_key)
    return SendOptions(size, -1, ttl_ms, int(all), int(durability), *texts, listed, len(pairs), key)


def body_in_c(body: Body) -> bytes:
    """The bytes of a body."""
    return body if isinstance(body, bytes) else bytes(memoryview(body))
