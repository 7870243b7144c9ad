"""The options with which a client is started, in C's terms."""
import contextlib
import ctypes
import datetime
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional, Union

from ._library import checked, in_c, last_error, lib

Seconds = Union[float, datetime.timedelta]
FilePath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

# The options that are times; C has them in milliseconds.
_TIMES = {
    "lease", "interval", "retry_first", "retry_most", "ack_within", "reassign_after", "retain_for", "deduplicate_for",
    "linger", "handler_linger", "patience", "quiet", "rescan", "part_age",
}
# The value of a time without limit.
FOREVER = b"forever"
_Z85 = set(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#")


class Peer(NamedTuple):
    """A client known in advance."""

    name: str
    endpoint: str
    topics: tuple[str, ...]


def in_s(time: Seconds) -> float:
    return time.total_seconds() if isinstance(time, datetime.timedelta) else float(time)


def _in_ms(name: str, time: Seconds) -> bytes:
    seconds = in_s(time)
    if seconds == math.inf and name == "deduplicate_for":
        return FOREVER
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{name} must be a time of at least 0 s, not {time!r}")
    # 0 has a meaning of its own.
    return str(max(1, round(seconds * 1000)) if seconds > 0 else 0).encode()


def path_in_c(file: FilePath) -> bytes:
    """A path as a C string. ValueError: it has a NUL."""
    path = os.fsencode(file)
    if b"\0" in path:
        raise ValueError(f"{file!r} has a NUL")
    return path


def in_c_terms(given: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, bytes]:
    """Options by their names in C, as text; without those that are None. `more` has some in these
    terms."""
    settings = {}
    for name, value in given.items():
        if value is None:
            continue
        if name in _TIMES:
            settings[f"{name}_ms"] = _in_ms(name, value)
        elif isinstance(value, int):  # bool, too
            settings[name] = str(int(value)).encode()
        else:
            settings[name] = path_in_c(value) if name == "data_dir" else in_c(value)
    return {**settings, **{key: in_c(value) for key, value in more.items()}}


@contextlib.contextmanager
def client_options(name: str, topic: str, settings: Mapping[str, bytes]) -> Iterator[Any]:
    """The options of a client with these settings."""
    options = lib.pinnace_client_options_new(in_c(name), in_c(topic))
    if options is None:
        raise last_error()
    try:
        for key, value in settings.items():
            checked(lib.pinnace_client_options_set(options, in_c(key), value))
        yield options
    finally:
        lib.pinnace_client_options_destroy(options)


def add_topics(options: Any, topics: Iterable[str], peers: Iterable[Peer]) -> None:
    """Adds further topics, and clients that are known in advance."""
    for topic in topics:
        checked(lib.pinnace_client_options_topic(options, in_c(topic)))
    for peer in peers:
        listens = (ctypes.c_char_p * len(peer.topics))(*map(in_c, peer.topics))
        known = in_c(peer.name), in_c(peer.endpoint)
        checked(lib.pinnace_client_options_peer(options, *known, listens, len(listens)))


def secure(options: Any, cert: Optional[FilePath], trust: Mapping[str, FilePath]) -> None:
    """Adds the keys of a certificate, by its path, and the public keys of other clients, by their names. Each is 40
    characters of Z85, or the path of a certificate."""
    if cert is not None:
        checked(lib.pinnace_client_options_cert(options, path_in_c(cert)))
    for name, key in trust.items():
        add_key(options, name, key, lib.pinnace_client_options_trust, lib.pinnace_client_options_trust_file)


def add_key(options: Any, name: str, key: FilePath, by_key: Any, by_file: Any) -> None:
    """Adds the public key of another: 40 characters of Z85, by the function `by_key`, or the path of a certificate."""
    z85 = key_in_c(key)
    if z85 is not None:
        checked(by_key(options, in_c(name), z85))
    else:
        checked(by_file(options, in_c(name), path_in_c(key)))


def key_in_c(key: FilePath) -> Optional[bytes]:
    """A key of 40 characters of Z85, as a C string. None: it is the path of a certificate."""
    if isinstance(key, (str, bytes)) and len(key) == 40:
        octets = os.fsencode(key)
        return octets if _Z85.issuperset(octets) else None
    return None
