#!/usr/bin/python3
"""A ventilator, ten workers and a result manager: the squares of 0 .. COUNT-1, each computed once.

    ventilator.py [COUNT] [--workers N]

    ventilator --PUSH--> workers --PUSH--> result manager --PUB, "FINISHED"--> workers

Every part is a process. None of them sleeps to wait for the others: a worker reports to the ventilator once it is
connected, and the result manager publishes from an XPUB, which receives every subscription, so it sends FINISHED
only when all workers are subscribed. Exits with 0 if each square arrived once and every worker got FINISHED.
"""
import argparse
import multiprocessing
import sys

import zmq

from common import WAIT_MS, WAIT_S, bound, library_file, print_result

FINISHED = b"FINISHED"


def socket(context, kind):
    made = context.socket(kind)
    made.setsockopt(zmq.RCVTIMEO, WAIT_MS)
    return made


def ventilator(report, count, workers):
    """Sends the numbers once all workers have reported that they are connected."""
    with zmq.Context() as context, socket(context, zmq.PUSH) as work, socket(context, zmq.PULL) as ready:
        report.send((bound(work, "tcp"), bound(ready, "tcp")))
        there = {ready.recv_json()["worker"] for _ in range(workers)}
        assert len(there) == workers, there
        for number in range(count):
            work.send_json({"num": number})


def worker(name, addresses):
    """Squares each number that it receives, until the result manager publishes FINISHED."""
    work_at, ready_at, results_at, control_at = addresses
    with zmq.Context() as context, socket(context, zmq.PULL) as work, socket(context, zmq.PUSH) as results, \
            socket(context, zmq.SUB) as control, socket(context, zmq.PUSH) as ready:
        work.connect(work_at)
        results.connect(results_at)
        control.connect(control_at)
        control.setsockopt(zmq.SUBSCRIBE, b"")
        ready.connect(ready_at)
        ready.send_json({"worker": name})

        poller = zmq.Poller()
        poller.register(work, zmq.POLLIN)
        poller.register(control, zmq.POLLIN)
        while True:
            events = dict(poller.poll(WAIT_MS))
            if not events:
                sys.exit(f"worker {name}: nothing came")
            if work in events:
                number = work.recv_json()["num"]
                results.send_json({"worker": name, "result": number * number})
            if control in events and control.recv() == FINISHED:
                print(f"worker {name} heard FINISHED", flush=True)
                return


def result_manager(report, count, workers):
    """Collects the squares, then sends FINISHED to the workers. Reports how many squares are missing or extra."""
    with zmq.Context() as context, socket(context, zmq.PULL) as results, socket(context, zmq.XPUB) as control:
        control.setsockopt(zmq.XPUB_VERBOSE, 1)  # passes on each worker's subscription, not only the first
        report.send((bound(results, "tcp"), bound(control, "tcp")))
        missing = {number * number for number in range(count)}
        shares, extra = [0] * workers, 0
        for _ in range(count):
            answer = results.recv_json()
            shares[answer["worker"]] += 1
            extra += answer["result"] not in missing
            missing.discard(answer["result"])
        for _ in range(workers):
            assert control.recv() == b"\x01", "a subscription to everything"
        control.send(FINISHED)
        report.send((len(missing), extra, shares, library_file()))


def run(count, workers):
    processes = multiprocessing.get_context("spawn")

    def start(target, *arguments):
        child = processes.Process(target=target, args=arguments, daemon=True)
        child.start()
        return child

    from_manager, to_manager = processes.Pipe()
    from_ventilator, to_ventilator = processes.Pipe()
    children = [
        start(result_manager, to_manager, count, workers),
        start(ventilator, to_ventilator, count, workers),
    ]
    to_manager.close()
    to_ventilator.close()
    addresses = (*from_ventilator.recv(), *from_manager.recv())
    children += [start(worker, name, addresses) for name in range(workers)]
    missing, extra, shares, library = from_manager.recv()
    for child in children:
        child.join(WAIT_S)
    ended = sum(child.exitcode == 0 for child in children[2:])
    return missing, extra, shares, library, ended, all(child.exitcode == 0 for child in children)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("count", type=int, nargs="?", default=10_000)
    options.add_argument("--workers", type=int, default=10)
    given = options.parse_args()
    try:
        missing, extra, shares, library, ended, good = run(given.count, given.workers)
    except EOFError:
        print("the result manager or the ventilator ended early", file=sys.stderr)
        return 1
    print("squares by worker:", *shares)
    print_result(
        program="ventilator", expected=given.count, messages=given.count - missing, extra=extra, ended=ended,
        library=library,
    )
    return 0 if good and missing == extra == 0 and ended == given.workers else 1


if __name__ == "__main__":
    sys.exit(main())
