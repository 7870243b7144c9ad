"""File transfer: verified, resumed where it ended, with bounded memory.

    with Server({"/photos": "photos"}, bind="tcp://127.0.0.1:*") as server, Client(server.endpoints[0]) as client:
        report = client.get("/photos/", "copy").wait()  # the content of the folder, to copy
        for event in client.get("/photos/new", "copy"):
            print(event)

docs/files.md has the promise. Virtual paths are texts; paths of this host are texts, bytes or path objects. Raises
ValueError for a text that C cannot take, and pinnace.Error with an errno: EHOSTUNREACH, no server answers; EACCES,
ENOENT and others of files; ECANCELED (Closed), the transfer was cancelled; EFAULT (Closed), the object was closed. All
objects may be called by any thread. They belong to the process that made them: a forked child can only close them.
"""
import ctypes
import enum
import errno
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Optional, Union

from . import _files_library as _files_library  # declares the functions
from ._files_rules import Deletion, Existing, Pattern, Rules, exclude, include, rules_in_c
from ._files_transfer import (
    Aborted, Begun, Current, Ended, Event, Failed, FileType, Finished, Linked, Listed, Lost, Moved, Planned, Progress,
    Removed, Report, Transfer,
)
from ._library import checked, error_of, in_c, last_error, lib
from ._options import FilePath, Seconds, add_key, in_c_terms, key_in_c, path_in_c
from ._owner import Owner

__all__ = ["ANYBODY", "Aborted", "Begun", "Client", "Current", "Deletion", "Ended", "Event", "Existing", "Failed",
           "FileType", "Finished", "Grant", "Linked", "Listed", "Lost", "Moved", "Pattern", "Planned", "Progress",
           "Removed", "Report", "Right", "Rules", "Server", "Transfer", "exclude", "include"]

ANYBODY = "*"
"""Any user, in a grant."""


class Right(enum.IntEnum):
    """What a grant allows."""

    READ = 0  # to list, fetch and follow
    WRITE = 1  # to upload, to folders that are writable


class Grant(NamedTuple):
    """Gives a user, or ANYBODY, a right to a virtual path and all below it."""

    user: str
    path: str
    right: Right


class Server(Owner):
    """A server. Times are seconds, or timedeltas. `folders` and `writable` map virtual paths such as "/data" to folders
    of this host; clients may upload to the latter. `bind` is one endpoint or several.

    `cert`, the path of a certificate (`pinnace keygen`), encrypts all connections. `users` maps names to public keys,
    40 characters of Z85, or to the paths of certificates; `passwords` maps names to passwords, which are sent in clear.
    With any of these, no others are admitted. Without any of `grants` every client may do everything; with one, nobody
    has a right that was not granted. `domain`: only clients that name the same one are served. `workers` threads read
    files. A followed file is sent when its writer closes it, or has not written for `quiet`. A followed folder that the
    system cannot watch is listed again each `rescan`. Parts of uploads that ended early are kept for `part_age`. At
    most `high_water_mark` frames wait for a client (0: no limit). None is the library's default. `more` has options by
    their names in pinnace_files.h, as text. A path of exactly 40 characters that may be Z85 is to be a pathlib.Path.
    """

    _release_in_c = lib.pinnace_files_server_close

    def __init__(
        self,
        folders: Mapping[str, FilePath] = MappingProxyType({}),
        *,
        writable: Mapping[str, FilePath] = MappingProxyType({}),
        bind: Union[str, Iterable[str]] = (),
        cert: Optional[FilePath] = None,
        users: Mapping[str, FilePath] = MappingProxyType({}),
        passwords: Mapping[str, str] = MappingProxyType({}),
        grants: Iterable[Grant] = (),
        domain: Optional[str] = None,
        workers: Optional[int] = None,
        quiet: Optional[Seconds] = None,
        rescan: Optional[Seconds] = None,
        part_age: Optional[Seconds] = None,
        high_water_mark: Optional[int] = None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        options = lib.pinnace_files_server_options_new()
        if options is None:
            raise last_error()
        try:
            given = dict(domain=domain, workers=workers, quiet=quiet, rescan=rescan, part_age=part_age,
                         high_water_mark=high_water_mark)
            for key, value in in_c_terms(given, more).items():
                checked(lib.pinnace_files_server_options_set(options, in_c(key), value))
            for is_writable, served in enumerate((folders, writable)):
                for alias, path in served.items():
                    words = in_c(alias), path_in_c(path)
                    checked(lib.pinnace_files_server_options_folder(options, *words, is_writable))
            for endpoint in [bind] if isinstance(bind, str) else bind:
                checked(lib.pinnace_files_server_options_bind(options, in_c(endpoint)))
            if cert is not None:
                checked(lib.pinnace_files_server_options_cert(options, path_in_c(cert)))
            for name, user in users.items():
                by_key, by_file = lib.pinnace_files_server_options_user, lib.pinnace_files_server_options_user_file
                add_key(options, name, user, by_key, by_file)
            for name, password in passwords.items():
                checked(lib.pinnace_files_server_options_password(options, in_c(name), in_c(password)))
            for grant in grants:
                words = in_c(grant.user), in_c(grant.path)
                checked(lib.pinnace_files_server_options_grant(options, *words, grant.right))
            self._handle = lib.pinnace_files_server_start(options)
            if self._handle is None:
                raise last_error()
        finally:
            lib.pinnace_files_server_options_destroy(options)
        self._endpoints = self._read_endpoints()

    @property
    def endpoints(self) -> list[str]:
        """Where it listens, with the ports that the system chose, in the order of `bind`."""
        return list(self._endpoints)

    def _read_endpoints(self) -> list[str]:
        """Called while no other thread can close the server, which frees their texts."""
        found: list[str] = []
        while (endpoint := lib.pinnace_files_server_endpoint(self._handle, len(found))) is not None:
            found.append(endpoint.decode())
        if ctypes.get_errno() != errno.ENOENT:
            raise last_error()
        return found

    @property
    def sent_bytes(self) -> int:
        """Bytes of content that were sent to all clients."""
        number = ctypes.c_uint64()
        checked(lib.pinnace_files_server_sent(self._handle, ctypes.byref(number)))
        return number.value

    def close(self) -> None:
        """Ends the server, and returns when its threads have ended."""
        super().close()



def _encrypt(options: Any, cert: FilePath, server: FilePath) -> None:
    """Sets the keys of a client: its own, by their file, and the server's, by its file or as Z85."""
    key = key_in_c(server)
    if key is None:
        checked(lib.pinnace_files_client_options_cert(options, path_in_c(cert), path_in_c(server)))
        return
    own = lib.pinnace_cert_load(path_in_c(cert))
    if own is None:
        raise error_of(ctypes.get_errno(), lib.pinnace_cert_error().decode(errors="replace"))
    try:
        checked(lib.pinnace_files_client_options_curve(options, own, key))
    finally:
        lib.pinnace_cert_destroy(own)


class Client(Owner):
    """A connection to the server at an endpoint, made in the background. Times are seconds, or timedeltas.

    `cert` and `server_cert` encrypt the connection: `cert` is the path of the client's certificate (`pinnace keygen`),
    `server_cert` the server's public key, as 40 characters of Z85 or as the path of its certificate. `user` and
    `password` are sent in clear, and do not go together with these. `domain` is the one that the server has to have,
    `patience` how long it may take to answer. The server sends at most `window_max` bytes ahead: a fast link needs its
    bandwidth times its round trip. A chunk has at most `chunk` bytes, and at most `limit_rate` bytes go a second in
    each direction (0: no limit). Parts of transfers that ended early are kept for `part_age`. At most `high_water_mark`
    frames wait (0: no limit). None is the library's default. `more` has options by their names in pinnace_files.h, as
    text.

    A `with` statement closes it at its end; its transfers go on.
    """

    _release_in_c = lib.pinnace_files_client_close

    def __init__(
        self,
        endpoint: str,
        *,
        cert: Optional[FilePath] = None,
        server_cert: Optional[FilePath] = None,
        user: Optional[str] = None,
        password: str = "",
        domain: Optional[str] = None,
        patience: Optional[Seconds] = None,
        window_max: Optional[int] = None,
        chunk: Optional[int] = None,
        limit_rate: Optional[int] = None,
        part_age: Optional[Seconds] = None,
        high_water_mark: Optional[int] = None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        if (cert is None) != (server_cert is None):
            raise ValueError("cert and server_cert belong together")
        if password and user is None:
            raise ValueError("a password without a user")
        options = lib.pinnace_files_client_options_new(in_c(endpoint))
        if options is None:
            raise last_error()
        try:
            given = dict(domain=domain, patience=patience, window_max=window_max, chunk=chunk, limit_rate=limit_rate,
                         part_age=part_age, high_water_mark=high_water_mark)
            for key, value in in_c_terms(given, more).items():
                checked(lib.pinnace_files_client_options_set(options, in_c(key), value))
            if cert is not None and server_cert is not None:
                _encrypt(options, cert, server_cert)
            if user is not None:
                checked(lib.pinnace_files_client_options_password(options, in_c(user), in_c(password)))
            self._handle = lib.pinnace_files_client_connect(options)
            if self._handle is None:
                raise last_error()
        finally:
            lib.pinnace_files_client_options_destroy(options)

    def get(self, path: str, to: FilePath, rules: Optional[Rules] = None) -> Transfer:
        """Begins to fetch a file, or a directory with all below it. With a slash at the end of `path`, the directory's
        content goes to `to`; without, the directory goes into `to` by its name."""
        with rules_in_c(rules) as given:
            return Transfer(lib.pinnace_files_get(self._handle, in_c(path), path_in_c(to), given))

    def put(self, source: FilePath, path: str, rules: Optional[Rules] = None) -> Transfer:
        """Begins to upload in the same way. A path of pathlib has no slash at its end: give a text for a directory's
        content."""
        with rules_in_c(rules) as given:
            return Transfer(lib.pinnace_files_put(self._handle, path_in_c(source), in_c(path), given))

    def follow(self, path: str, to: FilePath, rules: Optional[Rules] = None) -> Transfer:
        """Fetches a directory, and then what changes in it, until the transfer is cancelled."""
        with rules_in_c(rules) as given:
            return Transfer(lib.pinnace_files_follow(self._handle, in_c(path), path_in_c(to), given))

    def list(self, path: str) -> Transfer:
        """Lists the names below a path. After a lost connection the names come again."""
        return Transfer(lib.pinnace_files_list(self._handle, in_c(path)))

    def discard(self, path: str) -> Transfer:
        """Fetches, and discards what arrives once it is verified."""
        return Transfer(lib.pinnace_files_discard(self._handle, in_c(path)))

    def close(self) -> None:
        """Releases the client. The connection ends with its last transfer."""
        super().close()
