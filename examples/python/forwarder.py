#!/usr/bin/python3
"""Forwards lines received over TCP to a PUSH socket, each as one message, line end included.

    forwarder.py [--listen HOST:PORT] [--to ADDRESS]

Each connection has a thread and a PUSH socket of its own, so its lines stay in order. Prints the address that it
listens on (port 0: a free port) and runs until SIGTERM or SIGINT. Lines that arrived before are still delivered.
"""
import argparse
import signal
import socket
import sys
import threading

import zmq

from common import library_file, print_result

LONGEST_LINE = 1 << 20  # bytes; a longer line is forwarded in pieces


class Forwarder:
    def __init__(self, listen, to):
        host, _, port = listen.rpartition(":")
        self.listener = socket.create_server((host, int(port)))
        self.context = zmq.Context()
        self.to = to
        self.forwarded = 0
        self.lock = threading.Lock()
        self.connections = {}  # thread -> its connection
        self.acceptor = threading.Thread(target=self.accept_all)
        self.acceptor.start()

    def address(self):
        return "{}:{}".format(*self.listener.getsockname())

    def forward(self, connection):
        lines = 0
        with connection, connection.makefile("rb") as reader, self.context.socket(zmq.PUSH) as writer:
            writer.connect(self.to)
            while line := reader.readline(LONGEST_LINE):
                writer.send(line)
                lines += 1
        with self.lock:
            self.forwarded += lines
            del self.connections[threading.current_thread()]

    def accept_all(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.forward, args=(connection,))
            with self.lock:
                self.connections[thread] = connection
            thread.start()

    def close(self):
        """Shuts down every connection after the bytes that have arrived, and waits until all messages are delivered."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.listener.close()
        with self.lock:
            open_now = dict(self.connections)
        for thread, connection in open_now.items():
            try:
                connection.shutdown(socket.SHUT_RD)
            except OSError:
                pass  # the peer has closed it already
            thread.join()
        self.context.term()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--listen", default="127.0.0.1:7000")
    options.add_argument("--to", default="tcp://127.0.0.1:5558")
    given = options.parse_args()
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # threads inherit the mask; sigwait takes the signals

    forwarder = Forwarder(given.listen, given.to)
    print(f"listening on {forwarder.address()}, forwarding to {given.to}", flush=True)
    signal.sigwait(signals)
    forwarder.close()
    print_result(program="forwarder", messages=forwarder.forwarded, library=library_file())
    return 0


if __name__ == "__main__":
    sys.exit(main())
