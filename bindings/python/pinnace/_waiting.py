"""Waits for the library, during which the interpreter handles signals."""
import errno
import time
from typing import Callable, Optional

from ._library import Error, milliseconds

# The interpreter handles no signals during a call into the library, so waits are split into slices of this length.
_SLICE_S = 0.2


def in_slices(timeout: Optional[float], call: Callable[[int], int], growth: float = 1.0) -> int:
    """Repeats a call with short timeouts, in milliseconds, until the call succeeds, fails with another error, or
    `timeout` is over. Each slice is `growth` times as long as the last."""
    deadline, slice_s = None if timeout is None else time.monotonic() + timeout, _SLICE_S
    while True:
        left = slice_s if deadline is None else min(slice_s, max(0.0, deadline - time.monotonic()))
        slice_s *= growth
        try:
            return call(milliseconds(left))
        except Error as error:
            is_early = deadline is None or time.monotonic() < deadline
            if not is_early or error.errno not in (errno.EAGAIN, errno.ENOSPC):
                raise
