"""Receiving in coroutines: the event loop polls a client's descriptor, and no thread waits. Likewise the events of a
transfer of files.

A coroutine takes a message in the same step in which it returns it. So a coroutine that is cancelled has taken none.
"""
import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from typing import Callable

from ._delivery import Delivery
from ._library import Closed

# So many messages that are there at once are received before other tasks of the loop get a turn.
_IN_A_ROW = 16


class Readiness:
    """Coroutines of one event loop that wait for messages of one client. It does not refer to its loop, which is its
    key in a WeakKeyDictionary."""

    def __init__(self, fd: int) -> None:
        # A duplicate: the client's descriptor may be closed, and its number reused, while the loop polls it.
        self._fd = os.dup(fd)
        self._is_polled = False
        self._waiting: "deque[asyncio.Future[None]]" = deque()
        self._in_a_row = 0

    def __del__(self) -> None:
        # No loop polls it: that would refer to this object.
        fd = getattr(self, "_fd", None)
        if fd is not None:
            os.close(fd)

    async def turn(self) -> None:
        """Lets other tasks run after some messages, for which the coroutine did not have to wait."""
        self._in_a_row += 1
        if self._in_a_row > _IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)

    async def readable(self) -> None:
        """Waits until a message may be ready."""
        loop = asyncio.get_running_loop()
        self._in_a_row = 0
        if not self._is_polled:
            loop.add_reader(self._fd, self._on_readable)
            self._is_polled = True
        waiter: "asyncio.Future[None]" = loop.create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _on_readable(self) -> None:
        # One at a time: while messages are left, the descriptor stays readable, and the loop calls this again. That
        # also replaces a coroutine that is cancelled after its turn has come.
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter.set_result(None)
        # Poll again when a coroutine waits again.
        asyncio.get_running_loop().remove_reader(self._fd)
        self._is_polled = False


class Loops:
    """The event loops whose coroutines receive from one client."""

    def __init__(self) -> None:
        self._all: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Readiness]" = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def running(self, fd: Callable[[], int]) -> Readiness:
        """Of the running loop. `fd` returns the client's descriptor."""
        loop = asyncio.get_running_loop()
        with self._lock:
            known = self._all.get(loop)
            if known is None:
                known = self._all[loop] = Readiness(fd())
            return known


class Deliveries(AsyncIterator[Delivery]):
    """Messages, until the client is closed. Not a generator, which would end when a wait for a message is cancelled."""

    def __init__(self, recv: Callable[[], Awaitable[Delivery]]) -> None:
        self._recv = recv

    async def __anext__(self) -> Delivery:
        try:
            return await self._recv()
        except Closed:
            raise StopAsyncIteration from None
