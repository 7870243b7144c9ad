"""What only the Python face of file transfer has: coroutines that are cancelled, objects that are collected."""
import asyncio
import errno
import gc
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from pinnace import Closed, Error, TimedOut
from pinnace._library import lib
from pinnace.files import Aborted, Client, Current, Ended, Finished, Listed, Rules, Server

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
from check import Checks, expect  # noqa: E402

SOON_S = 20
TRANSFERS = 20


def in_a_place(check):
    with tempfile.TemporaryDirectory() as place:
        source, target = Path(place) / "source", Path(place) / "target"
        source.mkdir()
        (source / "a").write_text("content")
        with Server({"/data": source}, bind="tcp://127.0.0.1:*", quiet=0.05) as server:
            with Client(server.endpoints[0]) as client:
                check(client, source, target)


def next_of(transfer, kind):
    """The next event of this kind."""
    while True:
        event = transfer.next_event(SOON_S)
        expect(event is not None, f"the transfer is over without {kind.__name__}")
        if isinstance(event, kind):
            return event


async def until(transfer, kind):
    """The next event of this kind."""
    async for event in transfer:
        if isinstance(event, kind):
            return event
    expect(False, f"the transfer is over without {kind.__name__}")


def soon(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, SOON_S))


def a_cancelled_coroutine_takes_no_event(client, source, target):
    async def check():
        with client.follow("/data/", target) as transfer:
            await until(transfer, Current)
            waiting = asyncio.ensure_future(until(transfer, Finished))
            await asyncio.wait([waiting], timeout=0)
            waiting.cancel()
            (source / "b").write_text("more")
            event = await until(transfer, Finished)
            expect(event.path.endswith("b"), f"{event}")

    soon(check())


def many_transfers_in_one_loop(client, source, target):
    async def check():
        target.mkdir()
        transfers = [client.get("/data/", target / str(number)) for number in range(TRANSFERS)]
        reports = await asyncio.gather(*(transfer.wait_async() for transfer in transfers))
        expect([report.files for report in reports] == [1] * TRANSFERS, f"{reports}")

    soon(check())


def a_transfer_is_cancelled_while_a_coroutine_waits(client, source, target):
    async def check():
        transfer = client.follow("/data/", target)
        await until(transfer, Current)
        waiting = asyncio.ensure_future(until(transfer, Aborted))
        await asyncio.wait([waiting], timeout=0)
        transfer.cancel()
        event = await waiting
        expect(event.error.errno == errno.ECANCELED, f"{event}")
        try:
            await transfer.wait_async()
        except Closed:
            return
        expect(False, "it is over")

    soon(check())


def closing_ends_a_wait_of_another_thread(client, source, target):
    outcome = []

    def wait():
        try:
            outcome.append(list(transfer))
        except Error as error:
            outcome.append(error)

    transfer = client.follow("/data/", target)
    next_of(transfer, Current)
    waiting = threading.Thread(target=wait)
    waiting.start()
    transfer.close()
    waiting.join(SOON_S)
    expect(not waiting.is_alive() and outcome, "the wait has ended")
    transfer.close()


def a_collected_transfer_is_cancelled(client, source, target):
    transfer = client.follow("/data/", target)
    next_of(transfer, Current)
    del transfer
    gc.collect()
    with client.follow("/data/", source.parent / "other") as other:
        next_of(other, Current)
        # When the second change has arrived, the first one would have, also for a transfer that began before.
        for name in "bc":
            (source / name).write_text("more")
            while not next_of(other, Finished).path.endswith(name):
                pass
    expect(not (target / "b").exists(), "the collected one has ended")


def times_are_limited(client, source, target):
    with client.follow("/data/", target) as transfer:
        for wait in (transfer.wait, lambda timeout: all(transfer.next_event(timeout) for _ in range(TRANSFERS))):
            try:
                wait(0.001)
            except TimedOut:
                continue
            expect(False, "it does not end")


def what_is_closed_is_told(client, source, target):
    transfer = client.list("/data/")
    transfer.wait()
    transfer.close()
    client.close()
    client.close()
    for call in (transfer.wait, transfer.next_event, transfer.cancel, lambda: client.list("/data/")):
        try:
            call()
        except Closed:
            continue
        expect(False, f"{call} works")


def nul_is_no_part_of_a_path(client, source, target):
    for call in (lambda: client.list("/data/\0"), lambda: client.get("/data", "a\0b")):
        try:
            call()
        except ValueError:
            continue
        expect(False, "it has a NUL")


def a_wait_of_another_thread_takes_no_longer(client, source, target):
    with client.follow("/data/", target) as transfer:
        next_of(transfer, Current)
        waiting = threading.Thread(target=lambda: list(transfer))
        waiting.start()
        began = time.monotonic()
        for _ in range(TRANSFERS):
            try:
                transfer.next_event(0)
            except TimedOut:
                continue
            expect(False, "an event")
        took_s = time.monotonic() - began
        transfer.cancel()
        waiting.join(SOON_S)
        expect(not waiting.is_alive(), "it has ended")
        expect(took_s < 0.5, f"{TRANSFERS} calls that do not wait took {took_s} s")


def a_report_is_read_while_none_can_close(client, source, target):
    real, held = lib.pinnace_files_transfer_failure, []

    def failure(*words):
        held.append(transfer._taking.locked())
        return real(*words)

    lib.pinnace_files_transfer_failure = failure
    try:
        transfer = client.get("/data/none", target)
        failed = transfer.wait(SOON_S).failed
    finally:
        lib.pinnace_files_transfer_failure = real
    expect([each.error.errno for each in failed] == [errno.ENOENT] and held == [True], f"{failed}, {held}")


def a_kind_of_event_of_a_later_library_is_left_out(client, source, target):
    real, kinds = lib.pinnace_files_transfer_next_event, [99]

    def next_event(transfer, event, ms):
        if kinds:
            event._obj.kind = kinds.pop()
            return 1
        return real(transfer, event, ms)

    lib.pinnace_files_transfer_next_event = next_event
    try:
        found = list(client.get("/data/", target))
    finally:
        lib.pinnace_files_transfer_next_event = real
    expect(not kinds and isinstance(found[-1], Ended), f"{found}")


def a_child_of_fork_closes_what_its_parent_uses(client, source, target):
    with client.follow("/data/", target) as transfer:
        next_of(transfer, Current)
        waiting = threading.Thread(target=lambda: list(transfer))
        waiting.start()
        # The other thread has it nearly always.
        while not transfer._taking.locked():
            pass
        child = os.fork()
        if child == 0:
            signal.alarm(SOON_S)
            transfer.close()
            client.close()
            os._exit(0)
        expect(os.waitpid(child, 0)[1] == 0, "the child has closed them")
        expect(client.list("/data/").wait(SOON_S).files == 1, "the parent's client goes on")
        transfer.cancel()
        waiting.join(SOON_S)


def what_was_never_made_is_collected_in_silence(client, source, target):
    unraisable, found = sys.unraisablehook, []
    sys.unraisablehook = found.append
    try:
        for make in (lambda: Client(), lambda: Server(nonsense=1), lambda: Client("nonsense"),
                     lambda: Client("tcp://127.0.0.1:1", password="secret"),
                     lambda: Client("tcp://127.0.0.1:1", cert="a")):
            try:
                make()
            except (TypeError, ValueError, Error):
                continue
            expect(False, "it is made")
        gc.collect()
    finally:
        sys.unraisablehook = unraisable
    expect(not found, f"{found}")


def paths_are_any_bytes(client, source, target):
    (source / os.fsdecode(b"\xff")).write_text("content")
    expect(client.get("/data/", os.fsencode(target)).wait(SOON_S).files == 2, "two files")
    expect(sorted(os.listdir(os.fsencode(target))) == [b"a", b"\xff"], f"{os.listdir(target)}")
    names = [event.name for event in client.list("/data/") if isinstance(event, Listed)]
    expect(os.fsdecode(b"\xff") in names, f"{names}")


def patterns_are_no_texts(client, source, target):
    try:
        client.get("/data/", target, Rules(filter=["*o"]))
    except AttributeError:
        return
    expect(False, "a text is taken for a pattern")


def main():
    checks = Checks()
    for check in (
        a_cancelled_coroutine_takes_no_event, many_transfers_in_one_loop,
        a_transfer_is_cancelled_while_a_coroutine_waits, closing_ends_a_wait_of_another_thread,
        a_collected_transfer_is_cancelled, times_are_limited, what_is_closed_is_told, nul_is_no_part_of_a_path,
        a_wait_of_another_thread_takes_no_longer, a_report_is_read_while_none_can_close,
        a_kind_of_event_of_a_later_library_is_left_out, a_child_of_fork_closes_what_its_parent_uses,
        what_was_never_made_is_collected_in_silence, paths_are_any_bytes, patterns_are_no_texts,
    ):
        checks.check(f"Python, files: {check.__name__.replace('_', ' ')}", in_a_place, check)
    checks.finish()


main()
