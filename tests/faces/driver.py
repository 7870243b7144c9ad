"""A driver: a program in one of the faces' languages that executes commands, one per line, and prints each result. The
suite uses a face only through its driver.

    start CLIENT NAME TOPIC [KEY=VALUE]...    a client, referred to as CLIENT; topic=TOPIC, peer=NAME@ENDPOINT@TOPIC
    close CLIENT
    send CLIENT TOPIC BODY                    to one of the listeners; `all` to each
    all CLIENT TOPIC BODY                     -> number RECEIVERS
    with CLIENT TOPIC BODY ALL INTERVAL TTL_MS TIMEOUT_MS    with options, as numbers; TTL_MS 0: none
    describe CLIENT TOPIC BODY ID CONTENT_TYPE TRACEPARENT TRACESTATE ORDERING_KEY [KEY=VALUE]...    with headers;
                                              - for none, '' for an empty text
    properties NUMBER                         -> properties ID CONTENT_TYPE TRACEPARENT TRACESTATE ORDERING_KEY
                                              KEY=VALUE...
    together CLIENT NUMBER TIMEOUT_MS [TOPIC BODY ALL ID]...    acknowledges a delivery and sends these in one step
    burst CLIENT TOPIC COUNT                  sends numbers from 0, as text, and waits for the last ticket
    recv CLIENT TIMEOUT_MS                    -> delivery NUMBER FROM TOPIC COUNT ACCEPTED_MS SIZE ADLER32
    dead NUMBER                               -> dead TOPIC RECEIVER DELIVERIES REASON; REASON 0: given by the handler
    ack NUMBER, terminate NUMBER, fail NUMBER, nack NUMBER DELAY_MS, give_back NUMBER
    poll CLIENT TIMEOUT_MS                    waits until its descriptor is readable -> number 1; 0 after the timeout
    take CLIENT COUNT                         receives and acknowledges -> took BODY...
    run CLIENT VERDICT...                     a handler that returns these: ack, nack, terminate, fail, and throw, as an
                                              exception if the language has them; stops after the last
                                              -> ran BODY:COUNT...
    forward CLIENT TOPIC                      listens on a thread of its own, and forwards each message
    hang CLIENT TOPIC                         as forward, but each handler waits for `release`; TOPIC -: sends nothing
    release                                   lets one handler return
    in_hand CLIENT                            -> number N
    drain CLIENT TIMEOUT_MS
    close_within CLIENT TIMEOUT_MS
    close_twice CLIENT TIMEOUT_MS             two threads close it, and this one once more
    close_by_handler CLIENT TIMEOUT_MS        listens; the handler drains and closes its client, with this timeout each
    closed                                    waits for the handler that closes; its error
    start_process CLIENT TOPIC                as forward, but the handler starts a process, and sends the signals that
                                              the process blocks, as SigBlk in /proc/PID/status
    cursor NUMBER                             -> cursor SENDER STREAM NUMBER SETTLED
    schema                                    -> schema SQL, in one line
    pending CLIENT                            -> number N
    by_peer CLIENT                            -> by_peer RECEIVER:TOPIC:MESSAGES..., with - for any receiver
    settle CLIENT MOST TIMEOUT_MS             waits until at most MOST are pending
    subscribe CLIENT TOPIC, unsubscribe CLIENT TOPIC, forget CLIENT NAME
    wait_listeners CLIENT TOPIC COUNT TIMEOUT_MS
    addresses CLIENT TOPIC                    -> addresses ENDPOINT...
    statistics CLIENT                         -> statistics JSON
    metrics CLIENT                            -> metrics ADDRESS:PORT
    identity CLIENT                           -> identity NAME ENDPOINT
    interrupt CLIENT                          closes it while another thread receives -> that thread's error

All other commands answer `ok`, and any command may answer `error ERRNO WORDS`. A body is SIZE:SEED, where the byte at
AT is (AT / 7 + SEED) % 256, or `=` and a text. Bodies of `took` and `ran` are texts.
"""
import contextlib
import errno
import os
import signal
import subprocess
import zlib
from pathlib import Path
from typing import NamedTuple

from check import Failure, expect

PATIENCE_S = 60
SOON_MS = 20_000


class Delivery(NamedTuple):
    number: str
    sender: str
    topic: str
    count: int
    accepted_ms: int
    size: int
    adler: int


def body(spec):
    """The bytes of a body."""
    if spec.startswith("="):
        return spec[1:].encode()
    size, seed = map(int, spec.split(":"))
    return bytes((at // 7 + seed) % 256 for at in range(7 * 256)) * (size // (7 * 256) + 1)


def same_body(delivery, spec):
    wanted = body(spec)
    size = len(wanted) if spec.startswith("=") else int(spec.partition(":")[0])
    found = (delivery.size, delivery.adler)
    expect(found == (size, zlib.adler32(wanted[:size])), f"{delivery} is not {spec}")


class Refused(Failure):
    """The face answered with an error."""

    def __init__(self, command, answer):
        super().__init__(f"{' '.join(command)}: {answer}")
        self.number = int(answer.split()[1])


class Driver:
    """A process with clients."""

    def __init__(self, command, place, registry, env):
        self.place, self.registry = Path(place), registry
        self.process = subprocess.Popen(
            [str(word) for word in command], env=env, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )

    def tell(self, *words):
        """Sends a command; returns the words of its answer, after the first."""
        words = [str(word) for word in words]
        try:
            print(*words, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline().strip()
        expect(answer, f"{' '.join(words)}: the driver ended with {self.process.poll()}")
        if answer.startswith("error "):
            raise Refused(words, answer)
        return answer.split()[1:]

    def start(self, client, topic, *options, data=None):
        place = self.place / (data or client)
        return self.tell("start", client, client, topic, f"data_dir={place}", f"registry={self.registry}",
                         "retry_first_ms=1", "retry_most_ms=10", *options)

    def recv(self, client, timeout_ms=SOON_MS):
        number, sender, topic, *numbers = self.tell("recv", client, timeout_ms)
        return Delivery(number, sender, topic, *map(int, numbers))

    def take(self, client, spec):
        """Receives a message with this body, and acknowledges it."""
        delivery = self.recv(client)
        same_body(delivery, spec)
        self.tell("ack", delivery.number)
        return delivery

    def settled(self, *clients):
        for client in clients:
            self.tell("settle", client, 0, SOON_MS)

    def nothing_for(self, client):
        refused(errno.EAGAIN, self.tell, "recv", client, 0)

    def kill(self):
        """Kills the driver and the programs that it has started, and waits until all have ended."""
        if self.process.stdout.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        # All of them have its output open.
        self.process.stdout.read()
        self.process.stdin.close()
        self.process.stdout.close()


def refused(numbers, call, *words, reason=""):
    """Expects an error with this errno, or with one of several, and with the reason in its text."""
    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
    try:
        call(*words)
    except Refused as refusal:
        expect(refusal.number in numbers, f"{refusal}; expected {[errno.errorcode[number] for number in numbers]}")
        expect(reason in str(refusal), f"{refusal}; expected: {reason}")
    else:
        expect(False, f"{words}: not refused")
