"""Features of the Python face only: context managers, iterators, and exceptions from handlers."""
import asyncio
import ctypes
import datetime
import errno
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from pinnace import Client, Closed, Delivery, Durability, Error, NewMessage, TimedOut, Verdict
from pinnace._library import lib

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
        receiver.recv(PATIENCE_S)  # dropped without a verdict
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
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A background job of a shell ignores SIGINT.
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
            expect("4194304 (disk_limit)" in str(error), f"{error}")
            expect("bytes for any receiver on nobody's" in str(error), f"{error}")
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


def bodies_are_any_bytes(place, sender):
    with start(place, "receiver") as receiver:
        for body in (bytearray(b"one"), memoryview(b"a two")[2:], memoryview(b"t.h.r.e.e.")[::2], b""):
            sender.send_to("receiver's", body)
            with receiver.recv(PATIENCE_S) as delivery:
                expect(delivery.body == bytes(body), f"{delivery.body!r}")
        try:
            sender.send_to("receiver's", "no bytes")
        except TypeError as error:
            expect("bytes-like" in str(error), f"{error}")
        else:
            expect(False, "a text was sent")


def handlers_that_close_each_other(place, sender):
    both, clients = threading.Barrier(2, timeout=PATIENCE_S), {}
    for name, other in (("one", "two"), ("two", "one")):
        clients[name] = start(place, name)

        def handle(delivery, other=other):
            both.wait()
            clients[other].close()

        clients[name].listen(handle)
    threads = [thread for client in clients.values() for thread in client._threads]
    for name in clients:
        sender.send_to(f"{name}'s", b"close the other")
    for thread in threads:
        thread.join(PATIENCE_S)
        expect(not thread.is_alive(), "it has ended")
    for client in clients.values():
        client.close()


def a_child_has_clients_of_its_own(place, sender):
    sender.send_to("child's", b"one")
    child = os.fork()
    if child == 0:
        number = 1
        try:
            with start(place, "child") as own, own.recv(PATIENCE_S) as delivery:
                own.send_to("sender's", delivery.body + b" and two")
                own.wait_pending(0, PATIENCE_S)
                try:
                    start(place, "sender")
                except Error as error:
                    number = 0 if error.errno in (errno.EBUSY, errno.EEXIST) else 2
        finally:
            os._exit(number)
    with sender.recv(PATIENCE_S) as delivery:
        expect((delivery.sender, delivery.body) == ("child", b"one and two"), f"{delivery.body}")
    expect(os.waitpid(child, 0)[1] == 0, "the child, which does not get the parent's store")


def a_child_does_not_keep_the_store(place, sender):
    store = start(place, "of the parent")
    asked, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tell)
        os.read(asked, 1)  # Until the parent is done.
        os._exit(0)
    os.close(asked)
    store.close()
    start(place, "of the parent").close()
    os.close(tell)
    expect(os.waitpid(child, 0)[1] == 0, "the child")


def keys(path):
    public, secret = ctypes.create_string_buffer(41), ctypes.create_string_buffer(41)
    expect(lib.zmq_curve_keypair(public, secret) == 0, "keys")
    lib.pinnace_cert_new.restype = ctypes.c_void_p
    cert = ctypes.c_void_p(lib.pinnace_cert_new(public, secret))
    expect(lib.pinnace_cert_save(cert, os.fsencode(path)) == 0, "saved")
    lib.pinnace_cert_destroy(cert)
    return public.value.decode()


def who_is_not_trusted_is_not_spoken_to(place, sender):
    public = {name: keys(f"{place}/{name}.cert") for name in ("receiver", "knows", "stranger")}
    told = queue.Queue()
    # As a path, as text with a path, and as a key.
    public["knows"], public["stranger"] = Path(place, "knows.cert"), f"{place}/stranger.cert"

    def secret(name, *trusted, suffix="", **more):
        trust = {name: public[name] for name in trusted}
        return start(place, name, cert=f"{place}/{name}.cert{suffix}", trust=trust, **more)

    with secret("receiver", "knows") as receiver, secret("knows", "receiver", suffix="_secret") as knows:
        with secret("stranger", "receiver") as stranger:
            stranger.send_to("receiver's", b"from a stranger")
            sender.send_to("receiver's", b"not encrypted")
            knows.send_to("receiver's", b"from one that it knows")
            with receiver.recv(PATIENCE_S) as delivery:
                expect(delivery.sender == "knows", delivery.sender)
            knows.wait_pending(0, PATIENCE_S)
            expect((stranger.pending, sender.pending) == (1, 1), "they have it still")
    keys(f"{place}/alone.cert")
    with secret("alone", on_error=told.put) as alone:
        alone.send_to("sender's", b"whose key it does not have")
        expect(told.get(timeout=PATIENCE_S).errno == errno.EHOSTUNREACH, "it says so")
    Path(place, "nonsense").write_text("no certificate")
    for cert, number in ((f"{place}/none", errno.ENOENT), (f"{place}/nonsense", errno.EBADMSG)):
        for options in ({"cert": cert}, {"trust": {"other": Path(cert)}}, {"trust": {"other": cert}}):
            try:
                Client("one", "one's", **options)
            except Error as error:
                expect(error.errno == number and cert in str(error), f"{error}")
            else:
                expect(False, f"{options}")
    try:
        Client("one", "one's", cert=f"{place}/receiver.cert_secret_secret")
    except Error as error:
        expect(error.errno == errno.ENOENT, f"{error}")


def options_have_python_s_units(place, sender):
    second = datetime.timedelta(seconds=1)
    with start(place, "receiver", ack_within=0.0001, max_deliveries=5, lease=second, linger=second * 0,
               handler_linger=second, send_only=False, skip_failing=True, compress_from=100, max_body=1000) as receiver:
        sender.send_to("receiver's", b"one")
        first, again = receiver.recv(PATIENCE_S), receiver.recv(PATIENCE_S)
        expect((first.deliveries, again.deliveries) == (1, 2), "0.1 ms is not 0, which would be no limit")
        first.ack()
    with start(place, "other", send_only=True, advertise="tcp://127.0.0.1:1", reassign_after=0) as other:
        try:
            other.recv(0)
        except Closed:
            pass
        else:
            expect(False, "it only sends")
    for wrong in ({"lease": -1.0}, {"lease": float("nan")}, {"linger": float("inf")}, {"data_dir": "a\0b"},
                  {"trust": {"n": "a\0b"}}, {"registry": "a\0b"}):
        try:
            Client("one", "one's", **wrong)
        except ValueError as error:
            expect(str(error), "says why")
        else:
            expect(False, f"{wrong}")
    for wrong in ({"disk_limit": 1}, {"max_body": 0}, {"retry": (2, 1)}):
        try:
            Client("one", "one's", data_dir=f"{place}/one", registry="none", **wrong)
        except Error as error:
            expect(error.errno == errno.EINVAL, f"{error}")
        else:
            expect(False, f"{wrong}")


def registries_are_asked(place, sender):
    expect(sender.registry_error() is None and sender.clear_addresses("sender's") == 0, "all is well")
    told = start(place, "far")
    told.close()
    try:
        told.registry_error()
    except Closed:
        pass
    else:
        expect(False, "it is closed")
    with Client("far", "far's", data_dir=f"{place}/far", registry="redis://127.0.0.1:9/") as far:
        deadline = time.monotonic() + PATIENCE_S
        while far.registry_error() is None and time.monotonic() < deadline:
            pass
        expect(far.registry_error().errno == errno.EHOSTUNREACH, f"{far.registry_error()}")


EXITS = '''
import sys, threading
from pinnace import Client
place, begun = sys.argv[1], threading.Event()
def hang(delivery):
    begun.set()
    threading.Event().wait()
registry = f"dir://{place}/registry"
receiver = Client("hangs", "hangs'", data_dir=f"{place}/hangs", registry=registry, handler_linger=HANDLER_LINGER)
receiver.listen(hang)
with Client("to it", "t", data_dir=f"{place}/to it", registry=registry) as client:
    client.send_to("hangs'", b"one")
    begun.wait()
'''


def a_handler_that_hangs_lets_the_interpreter_exit(place, sender):
    for name, ending in (("left open", ""), ("closed", "receiver.close()"), ("with", "with receiver: pass")):
        program = EXITS.replace("HANDLER_LINGER", "60" if not ending else "0.01") + ending
        os.mkdir(f"{place}/{name}")
        ended = subprocess.run([sys.executable, "-c", program, f"{place}/{name}"], timeout=PATIENCE_S, check=False)
        expect(ended.returncode == 0, f"{name}: {ended.returncode}")


def a_handler_acknowledges_with_a_result(place, sender):
    """Which of them is not stored again; and the handler's verdict does not matter then."""
    def work(delivery):
        result = NewMessage("receiver's", memoryview(b"result"), id="1", headers={"of": delivery.body})
        worker.ack_and_send(delivery, (result for _ in range(2)), PATIENCE_S)
        expect(delivery.settled, "it is settled")
        return Verdict.FAIL | Verdict.STOP

    with start(place, "worker") as worker, start(place, "receiver") as receiver:
        for body in (b"one", b"two"):
            sender.send_to("worker's", body)
        worker.run(work)
        with receiver.recv(PATIENCE_S) as result:
            expect((result.body, result.headers) == (b"result", {"of": b"one"}), f"{result.headers}")
        with worker.recv(PATIENCE_S) as delivery:
            for message in (NewMessage("t", b"", durability=Durability.MEMORY), NewMessage("t" * 300, b"")):
                try:
                    worker.ack_and_send(delivery, [message])
                except Error as error:
                    expect(error.errno == errno.EINVAL and not delivery.settled, f"{error}")
                else:
                    expect(False, "it was sent")
        sender.wait_pending(0, PATIENCE_S)
        expect(worker.pending == 0, "nothing was sent")


def tasks_drain(place, sender):
    async def work(receiver):
        got, drained = [], None
        async for delivery in receiver:
            with delivery:
                got.append(delivery.body)
                if drained is None:
                    drained = asyncio.create_task(asyncio.to_thread(receiver.drain, PATIENCE_S))
        await drained
        return got

    with start(place, "receiver") as receiver:
        sender.send_to("receiver's", b"one")
        expect(asyncio.run(work(receiver))[0] == b"one", "and the loop ends")
        expect(receiver.in_hand == 0, "nothing is in hand")


def main():
    logging.disable()
    checks = Checks()
    for check in (a_with_settles, one_that_nobody_has_has_failed, iterators_end_with_their_client,
                  what_a_handler_raises_is_told, ctrl_c_ends_a_send_that_waits_for_room, what_is_settled_says_nothing,
                  bodies_are_any_bytes, handlers_that_close_each_other, a_child_has_clients_of_its_own,
                  a_child_does_not_keep_the_store, a_handler_acknowledges_with_a_result,
                  a_handler_that_hangs_lets_the_interpreter_exit, tasks_drain,
                  who_is_not_trusted_is_not_spoken_to, options_have_python_s_units, registries_are_asked):
        checks.check(f"Python: {check.__name__.replace('_', ' ')}", in_a_place, check)
    checks.finish()


main()
