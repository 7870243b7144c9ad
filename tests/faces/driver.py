"""A driver: a program in one of the faces' languages that does what it is told, a line a command, and says what came of
it. The suite knows a face by its driver alone.

    start CLIENT NAME TOPIC [KEY=VALUE]...    a client, under a word of its own; peer=NAME@ENDPOINT@TOPIC
    close CLIENT
    send CLIENT TOPIC BODY                    to one of those that listen; `all` to each
    all CLIENT TOPIC BODY
    with CLIENT TOPIC BODY ALL INTERVAL TTL_MS TIMEOUT_MS    by options, as numbers; TTL_MS 0: none
    burst CLIENT TOPIC COUNT                  sends numbers from 0, as text, and waits for the last one's ticket
    recv CLIENT TIMEOUT_MS                    -> delivery NUMBER FROM TOPIC COUNT ACCEPTED_MS SIZE ADLER32
    dead NUMBER                               -> dead TOPIC RECEIVER DELIVERIES REASON, 0 for a word of its handler's
    ack NUMBER, terminate NUMBER, fail NUMBER, nack NUMBER DELAY_MS
    take CLIENT COUNT                         receives and acknowledges -> took BODY...
    run CLIENT VERDICT...                     a handler that says these: ack, nack, terminate, fail, and throw, by an
                                              exception where there are such; stops with the last -> ran BODY:COUNT...
    forward CLIENT TOPIC                      listens on a thread of its own, and sends what comes on
    start_process CLIENT TOPIC                listens as well; the handler starts a process, and sends on which signals
                                              are blocked there, as SigBlk of /proc/PID/status says it
    cursor NUMBER                             -> cursor SENDER STREAM NUMBER SETTLED
    schema                                    -> schema SQL, in one line
    pending CLIENT                            -> number N
    by_peer CLIENT                            -> by_peer RECEIVER:TOPIC:MESSAGES..., with - for whoever comes first
    settle CLIENT MOST TIMEOUT_MS             waits until so few are pending
    subscribe CLIENT TOPIC, unsubscribe CLIENT TOPIC
    addresses CLIENT TOPIC                    -> addresses ENDPOINT...
    who CLIENT                                -> who NAME ENDPOINT
    interrupt CLIENT                          closes it while another thread receives -> error of that thread

Anything else is answered by `ok`, or by `error ERRNO WORDS`. A body is SIZE:SEED, where the byte at AT is
(AT / 7 + SEED) % 256, or a text with `=` before it. Bodies of `took` and `ran` are texts.
"""
import errno
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
    """The face said that it cannot."""

    def __init__(self, command, answer):
        super().__init__(f"{' '.join(command)}: {answer}")
        self.number = int(answer.split()[1])


class Driver:
    """A process with clients."""

    def __init__(self, command, place, registry, env):
        self.place, self.registry = Path(place), registry
        self.process = subprocess.Popen(
            [str(word) for word in command], env=env, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )

    def tell(self, *words):
        """Gives a command; returns the words of the answer."""
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
        """Receives a message of this body, and acknowledges it."""
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
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def refused(numbers, call, *words):
    """Expects an error, by its number, or one of several."""
    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
    try:
        call(*words)
    except Refused as refusal:
        expect(refusal.number in numbers, f"{refusal}; expected {[errno.errorcode[number] for number in numbers]}")
    else:
        expect(False, f"{words}: not refused")
