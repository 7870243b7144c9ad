"""Signal masks of this package's threads: like libpinnace's threads, they block the application's signals."""
import ctypes
import signal
import threading
from typing import Any

# Raised by a fault of the thread itself. If blocked, they kill the process without calling its handlers.
_FAULTS = {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGSYS,
}
_SIGSET_BYTES = 128  # sigset_t
# Called twice a message. signal.pthread_sigmask would take 40 us, because it builds sets.
_pthread_sigmask = ctypes.PyDLL(None).pthread_sigmask
_pthread_sigmask.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p]


class Mask:
    """The signal mask of the thread that constructs it."""

    def __init__(self) -> None:
        self._set = ctypes.create_string_buffer(_SIGSET_BYTES)
        _pthread_sigmask(signal.SIG_BLOCK, None, self._set)

    def install(self) -> None:
        """Sets it as the mask of the calling thread."""
        _pthread_sigmask(signal.SIG_SETMASK, self._set, None)


class AsStarted:
    """Context in which a thread of this package has the mask of the thread that started the client; processes that a
    handler starts inherit it."""

    def __init__(self, started: Mask) -> None:
        self._started, self._own = started, Mask()

    def __enter__(self) -> None:
        self._started.install()

    def __exit__(self, *error: Any) -> None:
        self._own.install()


def start(thread: threading.Thread) -> None:
    """Starts a thread of this package. It inherits its mask from this thread, so it never runs with another."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - _FAULTS)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
