#!/usr/bin/python3
"""A libzmq socket that does what it is told, line by line, on its standard input, and tells what it sees.

The first line is JSON: type, and where given bind or connect, options, and zap: the status that a ZAP handler gives to
everybody. Then `send HEX...` sends a message, and the end of input ends all. It prints `bound ENDPOINT`,
`got HEX...`, `event NUMBER VALUE`, and `asked HEX...`: what the ZAP handler was asked, from the mechanism on.
"""
import json
import struct
import sys

import zmq


def say(word, *parts):
    print(word, *parts, flush=True)


def texts(frames):
    return [frame.hex() or "-" for frame in frames]


def bytes_of(text):
    return b"" if text == "-" else bytes.fromhex(text)


def answer(handler, status):
    frames = handler.recv_multipart()
    say("asked", *texts(frames[5:]))
    handler.send_multipart([frames[0], frames[1], status.encode(), b"", b"user", b""])


def event(monitor):
    number, value = struct.unpack("=HI", monitor.recv_multipart()[0])
    say("event", number, value)


def main():
    setup = json.loads(sys.stdin.readline())
    context = zmq.Context()
    poller = zmq.Poller()
    handler = None
    if "zap" in setup:
        handler = context.socket(zmq.REP)
        handler.bind("inproc://zeromq.zap.01")
        poller.register(handler, zmq.POLLIN)
    socket = context.socket(getattr(zmq, setup["type"]))
    socket.linger = 0
    for name, value in setup.get("options", {}).items():
        is_key = name.startswith("CURVE_") and name.endswith("KEY")
        value = bytes.fromhex(value) if is_key else value.encode() if isinstance(value, str) else value
        socket.setsockopt(getattr(zmq, name), value)
    monitor = socket.get_monitor_socket()
    for watched in (socket, monitor, sys.stdin.fileno()):
        poller.register(watched, zmq.POLLIN)
    if "bind" in setup:
        socket.bind(setup["bind"])
        say("bound", socket.last_endpoint.decode().rstrip("\0"))
    if "connect" in setup:
        socket.connect(setup["connect"])
    while True:
        ready = dict(poller.poll())
        if handler in ready:
            answer(handler, setup["zap"])
        if monitor in ready:
            event(monitor)
        if socket in ready:
            say("got", *texts(socket.recv_multipart()))
        if sys.stdin.fileno() in ready:
            words = sys.stdin.readline().split()
            if not words:
                break
            socket.send_multipart([bytes_of(word) for word in words[1:]])
    context.destroy(linger=0)


if __name__ == "__main__":
    main()
