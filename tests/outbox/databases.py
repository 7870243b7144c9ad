"""Databases for the tests of outboxes: one of SQLite, and a server of PostgreSQL that the test starts."""
import contextlib
import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from check import expect

PATIENCE_S = 60


class Sqlite:
    """A file. Nothing of it runs, so it cannot be killed."""

    def __init__(self, place):
        self.address = str(place / "shop.db")

    def connect(self):
        return sqlite3.connect(self.address, timeout=PATIENCE_S)

    def close(self):
        pass


class Server:
    """A server of PostgreSQL with its own data, which listens on a local socket alone. It refuses to run as root, and
    runs as the user of Debian's package then."""

    def __init__(self):
        self.place = Path(tempfile.mkdtemp(prefix="pinnace-pg-"))
        self.bin = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        self.user = []
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.place, user.pw_uid, user.pw_gid)
            self.user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self.address = f"host={self.place} dbname=postgres user=pinnace"
        self.log = (self.place / "log").open("w")
        data = ["-D", str(self.place / "data")]
        self._run("initdb", *data, "-U", "pinnace", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        # fsync stays on: a commit is on the disk. The memory of 16 MB is enough, and its start is fast.
        options = ["listen_addresses=", f"unix_socket_directories={self.place}", "shared_buffers=16MB"]
        self.command = [*self.user, str(self.bin / "postgres"), *data, *(word for of in options for word in ("-c", of))]
        self.process = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def _run(self, program, *words):
        done = subprocess.run([*self.user, str(self.bin / program), *words], cwd=self.place, stdout=self.log,
                              stderr=self.log)
        expect(done.returncode == 0, f"{program}: exit {done.returncode}, see {self.place}/log")

    def start(self):
        """Starts it, and waits until it answers. After a kill a new server ends at once as long as other processes of
        the former one are left."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if self.process is None or self.process.poll() is not None:
                self.process = subprocess.Popen(self.command, cwd=self.place, stdout=self.log, stderr=self.log)
            try:
                self.connect().close()
                return
            except psycopg.OperationalError as error:
                expect(time.monotonic() < deadline, f"the server does not answer: {error}")

    def connect(self):
        return psycopg.connect(self.address)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(PATIENCE_S)
        self.log.close()
        shutil.rmtree(self.place)


@contextlib.contextmanager
def database(kind, place):
    found = Sqlite(place) if kind == "SQLite" else Server()
    try:
        yield found
    finally:
        found.close()
