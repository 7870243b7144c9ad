#!/usr/bin/python3
"""A client of pinnace-port in plain Python: the protocol of docs/port.md, one thread, no library.

    client.py [PROGRAM]    sends a message from a PUSH to a PULL over tcp, and prints what arrives
"""
import os
import struct
import subprocess
import sys

PART = (1 << 20) - 6
PAIR, PUB, SUB, REQ, REP, DEALER, ROUTER, PULL, PUSH = range(9)
NEW_CONTEXT, NEW_SOCKET, CLOSE, BIND, CONNECT, SET_OPTION = 2, 10, 11, 12, 14, 16
RECEIVED = 1 << 20  # The octets that a channel may deliver before they are received.


class Refused(OSError):
    """The program answered with an error."""


class Port:
    def __init__(self, program="pinnace-port", *arguments):
        self.process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last, self.answers, self.channels, hello = 0, {}, {}, self.read()
        if not hello.startswith(b"\x81pinnace-port"):
            raise OSError("this is not pinnace-port")
        if not hello[13:15] <= b"\0\1" <= hello[15:17]:
            raise OSError("it speaks other versions of the protocol")
        self.write(struct.pack(">BH", 1, 1))

    def write(self, packet):
        self.process.stdin.write(struct.pack(">I", len(packet)) + packet)
        self.process.stdin.flush()

    def read(self):
        """The next packet."""
        length = self.process.stdout.read(4)
        packet = self.process.stdout.read(struct.unpack(">I", length)[0]) if length else b""
        if not packet:
            raise OSError("the program has ended")
        return packet

    def request(self, operation, *arguments):
        """Requests an operation, and waits for its answer."""
        self.last += 1
        self.write(struct.pack(">BIH", 2, self.last, operation) + b"".join(map(field, arguments)))
        while self.last not in self.answers:
            self.handle(self.read())
        errno, value = self.answers.pop(self.last)
        if errno:
            raise Refused(errno, value.decode())
        return value

    def handle(self, packet):
        kind, number = struct.unpack(">BI", packet[:5]) if packet[0] != 255 else (255, 0)
        channel, rest = self.channels.get(number), packet[5:]
        if kind == 130:
            self.answers[number] = 0, rest
        elif kind == 131:
            self.answers[number] = struct.unpack(">I", rest[:4])[0], rest[4:]
        elif kind == 132 and channel:
            channel.received += messages(rest)
        elif kind == 133 and channel:
            channel.part += rest[1:]
            if rest[0]:
                channel.received, channel.part = channel.received + messages(channel.part), b""
        elif kind == 134 and channel:
            channel.room += struct.unpack(">II", rest)[1]
        elif kind == 136 and channel:
            channel.unsent.append(struct.unpack(">II", rest))
        elif kind == 255:
            raise OSError(packet[1:].decode())

    def close(self):
        self.process.communicate()
        return self.process.returncode


def field(value):
    """An argument: a number of four octets, a text with its length, or octets as they are."""
    if isinstance(value, int):
        return struct.pack(">i", value)
    if isinstance(value, str):
        return struct.pack(">I", len(value.encode())) + value.encode()
    return value


def messages(octets):
    """The messages of a packet: lists of frames."""
    found, frames, at = [], [], 0
    while at < len(octets):
        header, = struct.unpack_from(">I", octets, at)
        end = at + 4 + (header & 0x7FFFFFFF)
        frames.append(octets[at + 4:end])
        at = end
        if not header >> 31:
            found, frames = [*found, frames], []
    return found


class Socket:
    def __init__(self, port, number, kind, context=1):
        self.port, self.number = port, number
        self.received, self.part, self.unsent, port.channels[number] = [], b"", [], self
        self.room, = struct.unpack(">I", port.request(NEW_SOCKET, number, context, bytes([kind])))
        self.credit(1 << 31, RECEIVED)

    def credit(self, count, octets):
        self.port.write(struct.pack(">BIII", 5, self.number, count, octets))

    def bind(self, endpoint):
        return self.port.request(BIND, self.number, endpoint).decode()

    def connect(self, endpoint):
        self.port.request(CONNECT, self.number, endpoint)

    def set(self, option, value):
        self.port.request(SET_OPTION, self.number, option, value)

    def send(self, *frames):
        last = len(frames) - 1
        content = b"".join(struct.pack(">I", len(frame) | (at < last) << 31) + frame for at, frame in enumerate(frames))
        while self.room <= 0:
            self.port.handle(self.port.read())
        self.room -= len(content)
        if len(content) <= PART:
            return self.port.write(struct.pack(">BI", 3, self.number) + content)
        for at in range(0, len(content), PART):
            part = content[at:at + PART]
            self.port.write(struct.pack(">BIB", 4, self.number, at + PART >= len(content)) + part)

    def recv(self):
        while not self.received:
            self.port.handle(self.port.read())
        self.credit(1, sum(4 + len(frame) for frame in self.received[0]))
        return self.received.pop(0)

    def close(self):
        self.port.request(CLOSE, self.number)
        del self.port.channels[self.number]


if __name__ == "__main__":
    port = Port(*sys.argv[1:2])
    port.request(NEW_CONTEXT, 1)
    pull, push = Socket(port, 1, PULL), Socket(port, 2, PUSH)
    push.connect(pull.bind("tcp://127.0.0.1:*"))
    push.send(b"hello", os.fsencode(sys.argv[0]))
    print(pull.recv())
    port.close()
