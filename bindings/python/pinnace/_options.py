"""The options with which a client is started, in C's terms."""
import contextlib
import ctypes
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

from ._library import checked, error_of, in_c, last_error, lib, milliseconds


class Peer(NamedTuple):
    """A client known in advance."""

    name: str
    endpoint: str
    topics: tuple[str, ...]


def in_ms(seconds: Optional[float]) -> Optional[bytes]:
    return None if seconds is None else str(milliseconds(seconds)).encode()


@contextlib.contextmanager
def client_options(name: str, topic: str, settings: Mapping[str, Optional[bytes]]) -> Iterator[Any]:
    """The options of a client with these settings, except those that are None."""
    options = lib.pinnace_client_options_new(in_c(name), in_c(topic))
    if options is None:
        raise last_error()
    try:
        for key, value in settings.items():
            if value is not None:
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


def secure(options: Any, cert: Optional[bytes], trust: Mapping[str, str]) -> None:
    """Adds the keys of a certificate, by its path, and the public keys of other clients, by their names."""
    if cert is not None:
        keys = lib.pinnace_cert_load(cert)
        if keys is None:
            raise error_of(ctypes.get_errno(), lib.pinnace_cert_error().decode(errors="replace"))
        try:
            checked(lib.pinnace_client_options_curve(options, keys))
        finally:
            lib.pinnace_cert_destroy(keys)
    for name, key in trust.items():
        checked(lib.pinnace_client_options_trust(options, in_c(name), in_c(key)))
