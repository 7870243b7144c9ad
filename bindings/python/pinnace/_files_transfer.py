"""A transfer that is under way: its events, and its report."""
import contextlib
import ctypes
import enum
import errno
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple, Optional, Union

from ._aio import Loops
from ._files_library import EventStruct, FailureStruct, ReportStruct
from ._library import Error, TimedOut, checked, error_of, last_error, lib, milliseconds
from ._owner import Owner
from ._waiting import in_slices


class FileType(enum.IntEnum):
    """What a name in a listing is."""

    FILE = 1
    DIRECTORY = 2
    LINK = 3


class Listed(NamedTuple):
    """A name, in a listing."""

    name: str  # below the path that is listed; empty: the path itself
    type: FileType
    size: int
    mode: int  # permission bits
    mtime_ns: int  # nanoseconds since 1970
    target: str  # where a link leads


class Begun(NamedTuple):
    """A file begins that is not a small one: those of up to 64 KiB go many to a chunk."""

    path: str
    size: int


class Progress(NamedTuple):
    """Further octets were written, or of an upload were sent."""

    bytes: int


class Finished(NamedTuple):
    """A file is whole and in its place."""

    path: str
    size: int
    digest: bytes  # BLAKE3


class Removed(NamedTuple):
    """The source no longer has a path."""

    path: str
    here: bool  # it was removed here too


class Moved(NamedTuple):
    """The source has moved a path."""

    source: str
    target: str
    here: bool  # it was moved here too


class Planned(NamedTuple):
    """Of a dry run: the path would be made, replaced or removed."""

    path: str
    removal: bool


class Current(NamedTuple):
    """Of a path that is followed: everything in its last listing is here."""

    def __bool__(self) -> bool:  # An empty tuple is false.
        return True


class Failed(NamedTuple):
    """A file failed, with an errno for its kind; the others go on. `here`: it failed on the disk of this host."""

    path: str
    error: Error
    here: bool


class Ended(NamedTuple):
    """The transfer is complete."""

    files: int
    bytes: int
    failed: int


class Aborted(NamedTuple):
    """The transfer has ended before it was complete."""

    error: Error


class Linked(NamedTuple):
    """A file that is here has another name too."""

    path: str
    first: str


class Lost(NamedTuple):
    """Of a path that is followed: the server does not answer, and is tried again until the transfer is cancelled."""

    error: Error


Event = Union[Listed, Begun, Progress, Finished, Removed, Moved, Planned, Current, Failed, Ended, Aborted, Linked, Lost]


class Report(NamedTuple):
    """What a transfer has come to."""

    files: int
    bytes: int
    failed: list[Failed]


def _text(found: Optional[bytes]) -> str:
    return (found or b"").decode(errors="replace")


def _error(found: EventStruct) -> Error:
    return error_of(found.error, _text(found.text))


# By the kind, from PINNACE_FILES_LISTED on.
_EVENTS = [
    lambda found: Listed(os.fsdecode(found.path), FileType(found.type), found.bytes, found.mode, found.mtime_ns,
                         os.fsdecode(found.other)),
    lambda found: Begun(_text(found.path), found.bytes),
    lambda found: Progress(found.bytes),
    lambda found: Finished(_text(found.path), found.bytes, bytes(found.digest)),
    lambda found: Removed(_text(found.path), bool(found.here)),
    lambda found: Moved(_text(found.path), _text(found.other), bool(found.here)),
    lambda found: Planned(_text(found.path), bool(found.removal)),
    lambda found: Current(),
    lambda found: Failed(_text(found.path), _error(found), bool(found.here)),
    lambda found: Ended(found.files, found.bytes, found.failed),
    lambda found: Aborted(_error(found)),
    lambda found: Linked(_text(found.path), _text(found.other)),
    lambda found: Lost(_error(found)),
]


class Transfer(Owner):
    """A transfer that is under way. Unless it is over, it is cancelled by `close`, at the end of a `with` statement,
    and when it is garbage-collected.

    Iterating over it, by `for` and by `async for`, takes its events. Any thread may call it; one gets each event."""

    _release_in_c = lib.pinnace_files_transfer_close

    def __init__(self, handle: Optional[int]) -> None:
        if handle is None:
            raise last_error()
        self._handle = handle
        # Texts of an event are valid until the next one.
        self._taking = threading.Lock()
        self._loops = Loops()

    @contextlib.contextmanager
    def _turn(self, ms: int) -> Iterator[int]:
        """One thread at a time takes events, and none closes the transfer meanwhile: that would free their texts. Gives
        the time that is left. Raises TimedOut."""
        deadline = time.monotonic() + ms / 1000
        if not self._taking.acquire(timeout=ms / 1000):
            raise TimedOut(errno.EAGAIN, "another thread waits for an event")
        try:
            yield milliseconds(deadline - time.monotonic())
        finally:
            self._taking.release()

    def _next(self, ms: int) -> Optional[Event]:
        found = EventStruct(size=ctypes.sizeof(EventStruct))
        with self._turn(ms) as left:
            while checked(lib.pinnace_files_transfer_next_event(self._handle, ctypes.byref(found), left)) > 0:
                # Later versions of the library have further kinds.
                if found.kind <= len(_EVENTS):
                    event: Event = _EVENTS[found.kind - 1](found)
                    return event
        return None

    def next_event(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Waits for the next event. None: the transfer is over. Raises TimedOut: there was none for `timeout` s."""
        found: list[Optional[Event]] = []

        def take(ms: int) -> int:
            found.append(self._next(ms))
            return 0

        in_slices(timeout, take)
        return found[0]

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next_event()) is not None:
            yield event

    def wait(self, timeout: Optional[float] = None) -> Report:
        """Takes all events, and waits until the transfer is over. Raises why it is not complete; files that failed are
        in the report. Raises TimedOut after `timeout` seconds, and can be called again."""
        in_slices(timeout, self._wait)
        return self._report()

    def _wait(self, ms: int) -> int:
        with self._turn(ms) as left:
            return checked(lib.pinnace_files_transfer_wait(self._handle, None, left))

    def _report(self) -> Report:
        """Of a transfer that is over."""
        report, failed = ReportStruct(size=ctypes.sizeof(ReportStruct)), []
        with self._taking:
            checked(lib.pinnace_files_transfer_wait(self._handle, ctypes.byref(report), 0))
            for at in range(report.failed):
                found = FailureStruct(size=ctypes.sizeof(FailureStruct))
                checked(lib.pinnace_files_transfer_failure(self._handle, at, ctypes.byref(found)))
                error = error_of(found.error, _text(found.text))
                failed.append(Failed(_text(found.path), error, bool(found.here)))
        return Report(report.files, report.bytes, failed)

    async def next_event_async(self) -> Optional[Event]:
        """As next_event, in a coroutine, which waits in no thread. If it is cancelled, it has taken no event."""
        here = self._loops.running(self.fileno)
        await here.turn()
        while True:
            try:
                return self._next(0)
            except TimedOut:
                await here.readable()

    async def wait_async(self) -> Report:
        """As wait, in a coroutine. If that is cancelled, the transfer goes on."""
        while await self.next_event_async() is not None:
            pass
        return self._report()

    def __aiter__(self) -> AsyncIterator[Event]:
        """The events by next_event_async."""
        return _Events(self)

    def fileno(self) -> int:
        """A descriptor for select and event loops. It is readable while an event may be there, and once the transfer is
        over: then call next_event(0), until it raises TimedOut. It belongs to the transfer."""
        return checked(lib.pinnace_files_transfer_fd(self._handle))

    def cancel(self) -> None:
        """Ends the transfer soon, from any thread."""
        checked(lib.pinnace_files_transfer_cancel(self._handle))

    def close(self) -> None:
        """Cancels the transfer, unless it is over, and releases it. Calls that wait in other threads return, or raise
        Closed."""
        handle = self._handle
        if handle is None:
            return
        if lib.pinnace_files_transfer_cancel(handle) < 0:
            # The parent process made it, and a thread of that may have had the lock at the fork.
            super().close()
            return
        # Another thread that waits for an event gets one, and leaves.
        with self._taking:
            super().close()


class _Events(AsyncIterator[Event]):
    """The events of a transfer. Not a generator, which would end when a wait for an event is cancelled."""

    def __init__(self, of: Transfer) -> None:
        self._of = of

    async def __anext__(self) -> Event:
        event = await self._of.next_event_async()
        if event is None:
            raise StopAsyncIteration
        return event
