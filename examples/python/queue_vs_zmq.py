#!/usr/bin/python3
"""Ten million short messages from one process to another: multiprocessing.Queue against PUSH and PULL.

    queue_vs_zmq.py [COUNT] [--transport tcp|ipc] [--only queue|zmq]

The clock runs from the moment the receiver is ready until it has compared and counted the last message. (Timing the
sender alone would flatter the queue: put() returns before a background thread of the sender has written anything.)
"""
import argparse
import multiprocessing
import sys
import tempfile
import time

import zmq

from common import WAIT_MS, WAIT_S, bound, library_file, print_result

MESSAGE = b"MESSAGE"
TEXT = MESSAGE.decode()


def receive_queue(queue, report, count):
    report.send("ready")
    good = 0
    for _ in range(count):
        good += queue.get() == TEXT
    report.send((good, library_file()))


def receive_zmq(address, report, count):
    with zmq.Context() as context, context.socket(zmq.PULL) as receiver:
        receiver.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        receiver.connect(address)
        report.send("ready")
        good = 0
        for _ in range(count):
            good += receiver.recv() == MESSAGE
        report.send((good, library_file()))


def timed(kind, receiver, channel, send_all, count):
    """Starts the receiver, sends, and waits for the receiver's count. Returns True if every message arrived."""
    ours, theirs = processes.Pipe()
    child = processes.Process(target=receiver, args=(channel, theirs, count))
    child.start()
    theirs.close()
    assert ours.recv() == "ready"
    started = time.perf_counter()
    send_all()
    try:
        good, library = ours.recv()
    except EOFError:
        good, library = 0, "-"
    seconds = time.perf_counter() - started
    child.join(WAIT_S)
    print(f"{kind}: {good} of {count} messages in {seconds:.3f} s, {good / seconds:,.0f} a second")
    print_result(
        program="queue_vs_zmq", kind=kind, expected=count, messages=good, seconds=f"{seconds:.6f}",
        rate=f"{good / seconds:.0f}", library=library,
    )
    return good == count and child.exitcode == 0


def with_queue(count):
    queue = processes.Queue()

    def send_all():
        for _ in range(count):
            queue.put(TEXT)

    return timed("queue", receive_queue, queue, send_all, count)


def with_zmq(count, transport):
    with tempfile.TemporaryDirectory() as folder, zmq.Context() as context, context.socket(zmq.PUSH) as sender:
        address = bound(sender, transport, folder)

        def send_all():
            for _ in range(count):
                sender.send(MESSAGE)

        return timed("zmq", receive_zmq, address, send_all, count)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("count", type=int, nargs="?", default=10_000_000)
    options.add_argument("--transport", choices=("tcp", "ipc"), default="tcp")
    options.add_argument("--only", choices=("queue", "zmq"))
    given = options.parse_args()
    good = True
    if given.only != "zmq":
        good = with_queue(given.count) and good
    if given.only != "queue":
        good = with_zmq(given.count, given.transport) and good
    return 0 if good else 1


# "spawn": a child does not inherit this process's sockets.
processes = multiprocessing.get_context("spawn")

if __name__ == "__main__":
    sys.exit(main())
