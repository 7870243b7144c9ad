"""Consuming and producing in one step: an acknowledgement together with messages."""
import ctypes
from collections.abc import Sequence
from typing import Optional

from ._delivery import Delivery
from ._library import Message, SendOptions, checked, in_c, lib
from ._sending import PART, NewMessage, Ticket, body_in_c, send_options
from ._waiting import in_slices


def _in_c(messages: Sequence[NewMessage]) -> "tuple[ctypes.Array[Message], list[SendOptions]]":
    """The messages in C, and their options, without a timeout. ValueError: a text has a NUL."""
    options = [
        send_options(each.all, each.durability, each.ttl, each.id, each.content_type, each.traceparent,
                     each.tracestate, each.ordering_key, each.headers)
        for each in messages
    ]
    bodies = [body_in_c(each.body) for each in messages]
    # The structures keep what they point to alive.
    listed = [
        Message(in_c(each.topic), body, len(body), ctypes.pointer(how))
        for each, body, how in zip(messages, bodies, options)
    ]
    return (Message * len(listed))(*listed), options


def ack_and_send(
    client: Optional[int], delivery: Delivery, messages: Sequence[NewMessage], timeout: Optional[float]
) -> Ticket:
    """Acknowledges a delivery and sends messages, without waiting for the disk."""
    listed, options = _in_c(messages)
    ticket = ctypes.c_uint64()

    def send(ms: int) -> int:
        for each in options:
            each.timeout_ms = ms
        given = listed, len(listed), ctypes.byref(ticket)
        return checked(lib.pinnace_client_ack_and_send_async(client, delivery._handle, *given))

    # After a timeout nothing was acknowledged or sent, so the call may be repeated. What has parts may take longer than
    # one slice, so its slices grow.
    in_slices(timeout, send, 2.0 if sum(each.size for each in listed) > PART else 1.0)
    delivery._release()
    return Ticket(ticket.value)
