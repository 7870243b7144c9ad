"""Loads libpinnace, and declares the functions of pinnace.h that this package calls."""
import ctypes
import ctypes.util
import errno
import os
from ctypes import POINTER, c_char, c_char_p, c_int, c_int64, c_long, c_size_t, c_uint64, c_void_p
from typing import Any


class Header(ctypes.Structure):
    """pinnace_header_t. The value is not a c_void_p, so that the structure keeps its bytes alive."""

    _fields_ = [("key", c_char_p), ("value", c_char_p), ("size", c_size_t)]


class SendOptions(ctypes.Structure):
    """pinnace_send_options_t."""

    _fields_ = [
        ("size", c_size_t),
        ("timeout_ms", c_int64),
        ("ttl_ms", c_int64),
        ("all", c_int),
        ("durability", c_int),
        ("id", c_char_p),
        ("content_type", c_char_p),
        ("traceparent", c_char_p),
        ("tracestate", c_char_p),
        ("headers", POINTER(Header)),
        ("header_count", c_size_t),
        ("ordering_key", c_char_p),
    ]


class Message(ctypes.Structure):
    """pinnace_message_t. The data are not a c_void_p, so that the structure keeps the body alive."""

    _fields_ = [
        ("topic", c_char_p),
        ("data", c_char_p),
        ("size", c_size_t),
        ("options", POINTER(SendOptions)),
    ]


class ReceivedHeader(ctypes.Structure):
    """pinnace_header_t of a delivery, which owns the value."""

    _fields_ = [("key", c_char_p), ("value", c_void_p), ("size", c_size_t)]


class CursorStruct(ctypes.Structure):
    """pinnace_cursor_t."""

    _fields_ = [("sender", c_char * 33), ("stream", c_uint64), ("number", c_uint64), ("settled", c_uint64)]


REPORTER = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
PENDING = ctypes.CFUNCTYPE(None, c_char_p, c_char_p, c_uint64, c_void_p)

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "pinnace_version": (c_char_p, []),
    "pinnace_client_error": (c_char_p, []),
    "pinnace_client_options_new": (c_void_p, [c_char_p, c_char_p]),
    "pinnace_client_options_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "pinnace_client_options_topic": (c_int, [c_void_p, c_char_p]),
    "pinnace_client_options_peer": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(c_char_p), c_size_t]),
    "pinnace_client_options_cert": (c_int, [c_void_p, c_char_p]),
    "pinnace_client_options_trust": (c_int, [c_void_p, c_char_p, c_char_p]),
    "pinnace_client_options_trust_file": (c_int, [c_void_p, c_char_p, c_char_p]),
    "pinnace_client_options_destroy": (c_int, [c_void_p]),
    "pinnace_client_start": (c_void_p, [c_void_p]),
    "pinnace_client_close": (c_int, [c_void_p]),
    "pinnace_client_close_within": (c_int, [c_void_p, c_long]),
    "pinnace_client_drain": (c_int, [c_void_p, c_long]),
    "pinnace_client_in_hand": (c_int, [c_void_p, POINTER(c_uint64)]),
    "pinnace_handler_enter": (c_int, [c_void_p]),
    "pinnace_handler_leave": (c_int, [c_void_p]),
    "pinnace_client_name": (c_char_p, [c_void_p]),
    "pinnace_client_endpoint": (c_char_p, [c_void_p]),
    "pinnace_client_store_id": (c_char_p, [c_void_p]),
    "pinnace_client_subscribe": (c_int, [c_void_p, c_char_p]),
    "pinnace_client_unsubscribe": (c_int, [c_void_p, c_char_p]),
    "pinnace_client_statistics_json": (c_int, [c_void_p, c_char_p, POINTER(c_size_t)]),
    "pinnace_client_statistics_prometheus": (c_int, [c_void_p, c_char_p, POINTER(c_size_t)]),
    "pinnace_client_metrics_address": (c_int, [c_void_p, c_char_p, POINTER(c_size_t)]),
    "pinnace_client_addresses": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(c_size_t)]),
    "pinnace_client_registry_error": (c_int, [c_void_p]),
    "pinnace_client_forget": (c_int, [c_void_p, c_char_p]),
    "pinnace_client_clear_addresses": (c_int, [c_void_p, c_char_p]),
    "pinnace_client_send": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t, POINTER(SendOptions)]),
    "pinnace_client_send_async": (
        c_int,
        [c_void_p, c_char_p, c_char_p, c_size_t, POINTER(SendOptions), POINTER(c_uint64)],
    ),
    "pinnace_client_ack_and_send_async": (
        c_int,
        [c_void_p, c_void_p, POINTER(Message), c_size_t, POINTER(c_uint64)],
    ),
    "pinnace_client_wait": (c_int, [c_void_p, c_uint64, c_long]),
    "pinnace_client_pending": (c_int, [c_void_p, POINTER(c_uint64)]),
    "pinnace_client_pending_by_peer": (c_int, [c_void_p, PENDING, c_void_p]),
    "pinnace_client_clear_pending": (c_int, [c_void_p, c_char_p, POINTER(c_uint64)]),
    "pinnace_client_wait_listeners": (c_int, [c_void_p, c_char_p, c_size_t, c_long]),
    "pinnace_client_wait_pending": (c_int, [c_void_p, c_uint64, c_long]),
    "pinnace_client_recv": (c_void_p, [c_void_p, c_long]),
    "pinnace_client_fd": (c_int, [c_void_p]),
    "pinnace_client_on_error": (c_int, [c_void_p, REPORTER, c_void_p]),
    "pinnace_delivery_body": (c_void_p, [c_void_p]),
    "pinnace_delivery_size": (c_size_t, [c_void_p]),
    "pinnace_delivery_from": (c_char_p, [c_void_p]),
    "pinnace_delivery_topic": (c_char_p, [c_void_p]),
    "pinnace_delivery_accepted_ms": (c_uint64, [c_void_p]),
    "pinnace_delivery_deliveries": (c_uint64, [c_void_p]),
    "pinnace_delivery_cursor": (c_int, [c_void_p, POINTER(CursorStruct)]),
    "pinnace_cursor_schema": (c_char_p, []),
    "pinnace_sql": (c_char_p, [c_int]),
    "pinnace_delivery_id": (c_char_p, [c_void_p]),
    "pinnace_delivery_content_type": (c_char_p, [c_void_p]),
    "pinnace_delivery_traceparent": (c_char_p, [c_void_p]),
    "pinnace_delivery_tracestate": (c_char_p, [c_void_p]),
    "pinnace_delivery_ordering_key": (c_char_p, [c_void_p]),
    "pinnace_delivery_headers": (c_size_t, [c_void_p]),
    "pinnace_delivery_header_at": (c_int, [c_void_p, c_size_t, POINTER(ReceivedHeader)]),
    "pinnace_delivery_dead_topic": (c_char_p, [c_void_p]),
    "pinnace_delivery_dead_receiver": (c_char_p, [c_void_p]),
    "pinnace_delivery_dead_deliveries": (c_uint64, [c_void_p]),
    "pinnace_delivery_dead_reason": (c_int, [c_void_p]),
    "pinnace_delivery_in_progress": (c_int, [c_void_p]),
    "pinnace_delivery_ack": (c_int, [c_void_p]),
    "pinnace_delivery_nack": (c_int, [c_void_p, c_long]),
    "pinnace_delivery_terminate": (c_int, [c_void_p]),
    "pinnace_delivery_fail": (c_int, [c_void_p]),
    "pinnace_delivery_give_back": (c_int, [c_void_p]),
}


def _load() -> ctypes.CDLL:
    """The library that the environment variable PINNACE_LIBRARY names; otherwise the one that the loader finds."""
    name = os.environ.get("PINNACE_LIBRARY") or ctypes.util.find_library("pinnace") or "libpinnace.so"
    return ctypes.CDLL(name, use_errno=True)


def declare(functions: dict[str, tuple[Any, list[Any]]]) -> None:
    """Declares what functions return and take."""
    for function, (returned, taken) in functions.items():
        found = getattr(lib, function)
        found.restype, found.argtypes = returned, taken


lib = _load()
declare(_FUNCTIONS)


class Error(OSError):
    """An errno and its text."""


class TimedOut(Error, TimeoutError):
    """Timeout (EAGAIN), or something was left when a client ended (ETIMEDOUT)."""


class Closed(Error):
    """The client was closed during the call (ECANCELED), or before it (EFAULT)."""


_KINDS: dict[int, type[Error]] = {
    errno.EAGAIN: TimedOut, errno.ETIMEDOUT: TimedOut, errno.ECANCELED: Closed, errno.EFAULT: Closed,
}


def error_of(number: int, words: str) -> Error:
    return _KINDS.get(number, Error)(number, words)


def last_error() -> Error:
    """The error of this thread's last call."""
    number = ctypes.get_errno()
    return error_of(number, lib.pinnace_client_error().decode(errors="replace"))


def checked(returned: int) -> int:
    if returned < 0:
        raise last_error()
    return returned


def text(found: "bytes | None") -> str:
    if found is None:
        raise last_error()
    return found.decode(errors="replace")


def text_of(call: Any, *words: Any) -> str:
    """The text that a function writes into a buffer; it may have grown when the buffer is large enough for it."""
    size = ctypes.c_size_t(4096)
    while True:
        room = ctypes.create_string_buffer(size.value)
        if call(*words, room, ctypes.byref(size)) >= 0:
            return room.value.decode(errors="replace")
        if size.value <= len(room):
            raise last_error()
        size.value += size.value // 4


def in_c(word: str) -> bytes:
    """A text as a C string. ValueError: it has a NUL."""
    if "\0" in word:
        raise ValueError(f"{word!r} has a NUL")
    return word.encode()


def milliseconds(seconds: "float | None") -> int:
    """A time for C. None: -1, no limit."""
    return -1 if seconds is None else max(0, round(seconds * 1000))
