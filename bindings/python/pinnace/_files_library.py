"""Declares the functions of pinnace_files.h that pinnace.files calls."""
import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int64, c_long, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

from ._library import declare


class EventStruct(ctypes.Structure):
    """pinnace_files_event_t."""

    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("error", c_int),
        ("path", c_char_p),
        ("other", c_char_p),
        ("text", c_char_p),
        ("files", c_uint64),
        ("bytes", c_uint64),
        ("failed", c_uint64),
        ("here", c_int),
        ("removal", c_int),
        ("type", c_int),
        ("mode", c_uint32),
        ("mtime_ns", c_int64),
        ("digest", ctypes.c_ubyte * 32),
    ]


class ReportStruct(ctypes.Structure):
    """pinnace_files_report_t."""

    _fields_ = [("size", c_size_t), ("files", c_uint64), ("bytes", c_uint64), ("failed", c_uint64)]


class FailureStruct(ctypes.Structure):
    """pinnace_files_failure_t."""

    _fields_ = [("size", c_size_t), ("error", c_int), ("path", c_char_p), ("text", c_char_p), ("here", c_int)]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "server_options_new": (c_void_p, []),
    "server_options_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "server_options_folder": (c_int, [c_void_p, c_char_p, c_char_p, c_int]),
    "server_options_bind": (c_int, [c_void_p, c_char_p]),
    "server_options_cert": (c_int, [c_void_p, c_char_p]),
    "server_options_user": (c_int, [c_void_p, c_char_p, c_char_p]),
    "server_options_user_file": (c_int, [c_void_p, c_char_p, c_char_p]),
    "server_options_password": (c_int, [c_void_p, c_char_p, c_char_p]),
    "server_options_grant": (c_int, [c_void_p, c_char_p, c_char_p, c_int]),
    "server_options_destroy": (c_int, [c_void_p]),
    "server_start": (c_void_p, [c_void_p]),
    "server_endpoint": (c_char_p, [c_void_p, c_size_t]),
    "server_sent": (c_int, [c_void_p, POINTER(c_uint64)]),
    "server_close": (c_int, [c_void_p]),
    "client_options_new": (c_void_p, [c_char_p]),
    "client_options_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "client_options_curve": (c_int, [c_void_p, c_void_p, c_char_p]),
    "client_options_cert": (c_int, [c_void_p, c_char_p, c_char_p]),
    "client_options_password": (c_int, [c_void_p, c_char_p, c_char_p]),
    "client_options_destroy": (c_int, [c_void_p]),
    "client_connect": (c_void_p, [c_void_p]),
    "client_close": (c_int, [c_void_p]),
    "rules_new": (c_void_p, []),
    "rules_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "rules_exclude": (c_int, [c_void_p, c_char_p]),
    "rules_include": (c_int, [c_void_p, c_char_p]),
    "rules_destroy": (c_int, [c_void_p]),
    "get": (c_void_p, [c_void_p, c_char_p, c_char_p, c_void_p]),
    "put": (c_void_p, [c_void_p, c_char_p, c_char_p, c_void_p]),
    "follow": (c_void_p, [c_void_p, c_char_p, c_char_p, c_void_p]),
    "list": (c_void_p, [c_void_p, c_char_p]),
    "discard": (c_void_p, [c_void_p, c_char_p]),
    "transfer_next_event": (c_int, [c_void_p, POINTER(EventStruct), c_long]),
    "transfer_wait": (c_int, [c_void_p, POINTER(ReportStruct), c_long]),
    "transfer_failure": (c_int, [c_void_p, c_size_t, POINTER(FailureStruct)]),
    "transfer_fd": (c_int, [c_void_p]),
    "transfer_cancel": (c_int, [c_void_p]),
    "transfer_close": (c_int, [c_void_p]),
}
declare({f"pinnace_files_{name}": function for name, function in _FUNCTIONS.items()})
declare({
    "pinnace_cert_load": (c_void_p, [c_char_p]),
    "pinnace_cert_destroy": (c_int, [c_void_p]),
    "pinnace_cert_error": (c_char_p, []),
})
