"""What Python alone can do: managers of contexts, iterators, and exceptions out of handlers."""
import asyncio
import errno
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from pinnace import Client, Closed, Delivery, Error, TimedOut, Verdict

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from check import Checks, expect  # noqa: E402

PATIENCE_S = 20


def start(place, name, **more):
    registry = f"dir://{place}/registry"
    return Client(name, f"{name}'s", data_dir=f"{place}/{name}", registry=registry, retry=(0.001, 0.01), **more)


def in_a_place(check):
    with tempfile.TemporaryDirectory() as place, start(place, "sender") as sender:
        check(place, sender)


def a_with_settles(place, sender):
    with start(place, "receiver") as receiver:
        sender.send_to("receiver's", b"one")
        try:
            with receiver.recv(PATIENCE_S):
                raise KeyError("on purpose")
        except KeyError:
            pass
        with receiver.recv(PATIENCE_S) as delivery:
            expect((delivery.body, delivery.deliveries) == (b"one", 2), "it came again")
        sender.wait_pending(0, PATIENCE_S)
        expect(delivery.settled, "it is settled")
        try:
            receiver.recv(0)
        except TimedOut as late:
            expect(isinstance(late, TimeoutError) and isinstance(late, OSError), "of these kinds")
        else:
            expect(False, "nothing is there")


def one_that_nobody_has_has_failed(place, sender):
    with start(place, "receiver") as receiver:
        sender.send_to("receiver's", b"one")
        receiver.recv(PATIENCE_S)  # let go at once
        expect(receiver.recv(PATIENCE_S).deliveries == 2, "it came again")


def iterators_end_with_their_client(place, sender):
    with start(place, "receiver") as receiver:
        for number in range(6):
            sender.send_to("receiver's", str(number).encode())
        got = []
        for delivery in receiver:
            with delivery:
                got.append(delivery.body)
            if len(got) == 3:
                break

        async def rest():
            async for delivery in receiver:
                with delivery:
                    got.append(delivery.body)
                if len(got) == 6:
                    receiver.close()

        try:
            asyncio.run(rest())
        except Closed:
            expect(False, "closing ends it without an error")
        expect(got == [str(number).encode() for number in range(6)], f"{got}")
        expect(list(receiver) == [], "it is closed")


def what_a_handler_raises_is_told(place, sender):
    told, heard = [], threading.Event()

    def tell(error: Error):
        told.append(str(error))
        heard.set()

    def handle(delivery: Delivery):
        if delivery.deliveries == 1:
            raise KeyError("on purpose")
        return Verdict.ACK | Verdict.STOP

    with start(place, "receiver", on_error=tell) as receiver:
        receiver.listen(handle)
        sender.send_to("receiver's", b"one")
        sender.wait_pending(0, PATIENCE_S)
        expect(heard.is_set() and "on purpose" in told[0], f"{told}")


def ctrl_c_ends_a_send_that_waits_for_room(place, sender):
    with start(place, "full", more={"disk_limit": "4194304"}) as full:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                full.send_to("nobody's", os.urandom(100_000))
        except KeyboardInterrupt:
            pass
        began = time.monotonic()
        try:
            while True:
                full.send("nobody's", os.urandom(100_000), timeout=0.01)
        except Error as error:
            expect(error.errno == errno.ENOSPC, f"{error}")
        expect(time.monotonic() - began < PATIENCE_S, "at its deadline")


def what_is_settled_says_nothing(place, sender):
    with start(place, "receiver") as receiver:
        sender.send_to("receiver's", b"one")
        delivery = receiver.recv(PATIENCE_S)
        delivery.ack()
        for look in ("deliveries", "accepted", "sender", "cursor"):
            try:
                expect(False, f"{look} is {getattr(delivery, look)}")
            except Closed:
                pass


def main():
    logging.disable()
    checks = Checks()
    for check in (a_with_settles, one_that_nobody_has_has_failed, iterators_end_with_their_client,
                  what_a_handler_raises_is_told, ctrl_c_ends_a_send_that_waits_for_room, what_is_settled_says_nothing):
        checks.check(f"Python: {check.__name__.replace('_', ' ')}", in_a_place, check)
    checks.finish()


main()
