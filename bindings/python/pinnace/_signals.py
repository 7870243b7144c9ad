"""Which signals a thread of this package takes: as the threads of libpinnace, none of the application's."""
import ctypes
import signal
import threading
from typing import Any

# Raised by a fault of the thread itself: blocked, they end the process without its handlers.
_FAULTS = {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGSYS,
}
_SIGSET_BYTES = 128  # sigset_t
# Twice a message: signal.pthread_sigmask takes 40 us, for the sets that it makes.
_pthread_sigmask = ctypes.PyDLL(None).pthread_sigmask
_pthread_sigmask.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p]


class Mask:
    """What the calling thread blocks now."""

    def __init__(self) -> None:
        self._set = ctypes.create_string_buffer(_SIGSET_BYTES)
        _pthread_sigmask(signal.SIG_BLOCK, None, self._set)

    def install(self) -> None:
        """Has the calling thread block the same."""
        _pthread_sigmask(signal.SIG_SETMASK, self._set, None)


class AsStarted:
    """While in it, a thread of this package has the mask of the thread that started the client, and so has a process
    that a handler starts."""

    def __init__(self, started: Mask) -> None:
        self._started, self._own = started, Mask()

    def __enter__(self) -> None:
        self._started.install()

    def __exit__(self, *error: Any) -> None:
        self._own.install()


def start(thread: threading.Thread) -> None:
    """Starts a thread of this package. It inherits its mask: it never runs with another."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - _FAULTS)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
