"""The behaviours of every face, over every registry: one function each. A behaviour runs in its own directory and gets
`open_driver`, which starts the face's driver there (driver.py)."""
import errno
import signal
import sqlite3
import time
from pathlib import Path

from check import expect
from driver import PATIENCE_S, SOON_MS, Refused, refused, same_body


# The signals that a library thread blocks, as in SigBlk: all but those of faults, and those that cannot be blocked.
OPEN = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGSYS,
        signal.SIGKILL, signal.SIGSTOP}
LIBRARY = f"{sum(1 << number - 1 for number in signal.valid_signals() - OPEN):016x}"


def until(what, is_so):
    """Polls until `is_so` holds; fails after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        expect(time.monotonic() < deadline, f"{what}: not within {PATIENCE_S} s")


def blocked(process, thread):
    """The signals that a thread blocks, as in SigBlk."""
    status = Path(f"/proc/{process}/task/{thread}/status").read_text()
    return status.partition("SigBlk:")[2].split()[0]


def listening(driver, client, topic, count):
    until(f"{count} listen on {topic}", lambda: len(driver.tell("addresses", client, topic)) == count)


def starts_when_free(driver, client, topic, *options):
    """Starts a client; a killed process may still hold its name."""

    def starts():
        try:
            driver.start(client, topic, "lease_ms=1000", *options)
        except Refused as refusal:
            expect(refusal.number == errno.EEXIST, f"{refusal}")
            return False
        return True

    until("the lease is over", starts)


def one_to_one_in_order(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("burst", "sender", "news", 1000)
    got = driver.tell("take", "receiver", 1000)
    expect(got == [str(number) for number in range(1000)], f"{got}")
    driver.settled("sender")
    driver.nothing_for("receiver")


def what_a_delivery_says(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    name, endpoint = driver.tell("identity", "receiver")
    expect(name == "receiver" and endpoint.startswith("ipc://@pinnace-"), f"{name} {endpoint}")
    driver.tell("send", "sender", "news", "=one")
    got = driver.take("receiver", "=one")
    expect((got.sender, got.topic, got.count) == ("sender", "news", 1), f"{got}")
    expect(abs(got.accepted_ms - time.time() * 1000) < 1000 * PATIENCE_S, f"{got}")
    refused(errno.EFAULT, driver.tell, "ack", got.number)
    driver.settled("sender")


def one_to_many(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    for client in "abc":
        driver.start(client, "work")
    listening(driver, "sender", "work", 3)
    driver.tell("all", "sender", "work", "=everyone")
    for client in "abc":
        driver.take(client, "=everyone")
    driver.settled("sender")


def one_of_many(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    for client in "abc":
        driver.start(client, "work")
    listening(driver, "sender", "work", 3)
    driver.tell("burst", "sender", "work", 9)
    shares = [[int(text) for text in driver.tell("take", client, 3)] for client in "abc"]
    expect(sorted(sum(shares, [])) == list(range(9)), f"{shares}")
    driver.settled("sender")


def many_to_many(open_driver):
    driver = open_driver()
    for client in "abcd":
        driver.start(client, "all")
    for client in "abcd":
        listening(driver, client, "all", 4)
    for client in "abcd":
        driver.tell("all", client, "all", f"={client}")
    for client in "abcd":
        heard = sorted(driver.tell("take", client, 3))
        expect(heard == [other for other in "abcd" if other != client], f"{client} heard {heard}")
    driver.settled(*"abcd")


def subscriptions_come_and_go(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "r")
    driver.tell("subscribe", "receiver", "news")
    listening(driver, "sender", "news", 1)
    expect(driver.tell("addresses", "sender", "news") == driver.tell("identity", "receiver")[1:], "its address")
    driver.tell("send", "sender", "news", "=one")
    driver.take("receiver", "=one")
    driver.tell("unsubscribe", "receiver", "news")
    listening(driver, "sender", "news", 0)
    listening(driver, "sender", "r", 1)


def listeners_are_waited_for(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.tell("wait_listeners", "sender", "news", 0, 0)
    refused(errno.EAGAIN, driver.tell, "wait_listeners", "sender", "news", 1, 1)
    for client in ("one", "two"):
        driver.start(client, "news")
    driver.tell("wait_listeners", "sender", "news", 2, SOON_MS)
    driver.tell("wait_listeners", "sender", "s", 1, SOON_MS)
    expect(len(driver.tell("addresses", "sender", "news")) == 2, "two addresses")
    refused(errno.EAGAIN, driver.tell, "wait_listeners", "sender", "news", 3, 1)


def what_is_sent_to_all_says_its_receivers(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    expect(driver.tell("all", "sender", "news", "=first") == ["0"], "it is kept for those to come")
    for client in ("one", "two"):
        driver.start(client, "news")
    driver.tell("wait_listeners", "sender", "news", 2, SOON_MS)
    expect(driver.tell("all", "sender", "news", "=both") == ["2"], "two receivers")
    for client in ("one", "two"):
        heard = driver.tell("take", client, 2)
        expect(heard == ["first", "both"], f"what was kept comes first: {heard}")
    driver.settled("sender")


def a_killed_subscriber_of_several_topics_misses_nothing(open_driver):
    """It listens on all of them from its start, and after a kill also on those that it subscribed to later."""
    driver = open_driver()
    driver.start("sender", "s")
    first = open_driver()
    first.start("receiver", "r", "lease_ms=1000", "topic=news")
    first.tell("subscribe", "receiver", "weather")
    for topic in ("r", "news", "weather"):
        listening(driver, "sender", topic, 1)
    first.kill()
    for number in range(3):
        driver.tell("all", "sender", "weather", f"={number}")
    second = open_driver()
    starts_when_free(second, "receiver", "r")
    driver.tell("all", "sender", "weather", "=3")
    for number in range(4):
        second.take("receiver", f"={number}")


def what_nobody_listens_to_waits(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.tell("burst", "sender", "news", 50)
    expect(driver.tell("pending", "sender") == ["50"], "50 are pending")
    refused(errno.EAGAIN, driver.tell, "settle", "sender", 49, 1)
    driver.tell("settle", "sender", 50, 0)
    driver.start("receiver", "news")
    driver.tell("burst", "sender", "news", 50)
    got = driver.tell("take", "receiver", 100)
    expect(got == [str(number) for number in range(50)] * 2, f"{got}")
    driver.settled("sender")


def what_is_pending_by_peer(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    expect(driver.tell("by_peer", "sender") == [], "nothing was sent")
    driver.tell("burst", "sender", "later", 7)
    for client in "ab":
        driver.start(client, "news")
    listening(driver, "sender", "news", 2)
    for _ in range(3):
        driver.tell("all", "sender", "news", "=one")
    driver.take("a", "=one")
    until("one is acknowledged", lambda: sorted(driver.tell("by_peer", "sender")) ==
          ["-:later:7", "a:news:2", "b:news:3"])


def handle_once(driver, database):
    """Commits a message's effect and its cursor in one transaction. False if it had been handled before."""
    got = driver.recv("receiver")
    sender, *numbers = driver.tell("cursor", got.number)
    stream, number, settled = map(int, numbers)
    try:
        with database:
            row = ("receiver", sender, stream, number)
            database.execute("INSERT INTO pinnace_handled VALUES (?, ?, ?, ?)", row)
            database.execute("UPDATE effects SET count = count + 1")
            database.execute("DELETE FROM pinnace_handled WHERE client = ? AND sender = ? AND stream = ?"
                             " AND number <= ?", ("receiver", sender, stream, settled))
    except sqlite3.IntegrityError:
        return got, False
    return got, True


def an_effect_happens_once(open_driver):
    """With the cursor in the user's database: the transaction is committed, and the receiver is killed before the
    acknowledgement."""
    sending = open_driver()
    sending.start("sender", "s")
    sending.tell("burst", "sender", "news", 20)
    database, again = sqlite3.connect(":memory:"), 0
    database.execute("CREATE TABLE effects AS SELECT 0 AS count")
    for life in range(4):
        receiving = open_driver()
        starts_when_free(receiving, "receiver", "news")
        database.execute(" ".join(receiving.tell("schema")))
        for left in range(4, -1, -1):
            got, is_new = handle_once(receiving, database)
            again += not is_new
            if left > 0 or life == 3:
                receiving.tell("ack", got.number)
        if life < 3:
            receiving.kill()
    while database.execute("SELECT count FROM effects").fetchone()[0] < 20:
        got, _ = handle_once(receiving, database)
        receiving.tell("ack", got.number)
    sending.settled("sender")
    receiving.nothing_for("receiver")
    expect(database.execute("SELECT count FROM effects").fetchone()[0] == 20, "each once")
    expect(again >= 3, f"{again} came twice: this shows nothing")


def given_peers(open_driver):
    driver = open_driver()
    driver.start("receiver", "r", "registry=none", "listen=tcp://127.0.0.1:*")
    endpoint = driver.tell("identity", "receiver")[1]
    driver.start("sender", "s", "registry=none", f"peer=receiver@{endpoint}@news")
    driver.tell("send", "sender", "news", "=one")
    driver.take("receiver", "=one")
    driver.settled("sender")


def bodies_of_any_size(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    for size in (0, 1, 1000, 65_536, (1 << 20) + 1, 5_000_000):
        driver.tell("send", "sender", "news", f"{size}:{size % 251}")
        driver.take("receiver", f"{size}:{size % 251}")
    driver.settled("sender")


def options_of_a_send(open_driver):
    driver = open_driver()
    driver.start("sender", "s", "interval_ms=20")
    for client in "ab":
        driver.start(client, "news")
    listening(driver, "sender", "news", 2)
    driver.tell("with", "sender", "news", "=each", 1, 1, 3_600_000, SOON_MS)
    for client in "ab":
        driver.take(client, "=each")
    driver.settled("sender")


def what_is_too_old_is_not_delivered(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.tell("with", "sender", "news", "=old", 0, 0, 1, -1)
    driver.tell("with", "sender", "news", "=new", 0, 0, 3_600_000, -1)
    over = time.monotonic() + 0.005
    until("some milliseconds", lambda: time.monotonic() > over)
    driver.start("receiver", "news")
    driver.take("receiver", "=new")
    driver.settled("sender")


def what_fails_stays_ahead(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("burst", "sender", "news", 2)
    first = driver.recv("receiver")
    driver.tell("fail", first.number)
    again = driver.take("receiver", "=0")
    expect(again.count == 2, f"{again}")
    driver.take("receiver", "=1")
    driver.settled("sender")


def what_is_put_off_lets_others_go_first(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    for delay_ms in (50, -1):
        driver.tell("burst", "sender", "news", 2)
        first, second = driver.recv("receiver"), driver.recv("receiver")
        driver.tell("nack", first.number, delay_ms)
        same_body(second, "=1")
        driver.tell("ack", second.number)
        expect(driver.take("receiver", "=0").count == 2, "it is the second time")
    driver.settled("sender")


def what_is_given_up_is_a_dead_letter(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news", "max_deliveries=2")
    driver.start("undertaker", "news.dead")
    listening(driver, "sender", "news.dead", 1)
    driver.tell("send", "sender", "news", "=refused")
    driver.tell("terminate", driver.recv("receiver").number)
    driver.tell("send", "sender", "news", "3000000:5")
    for _ in range(2):
        driver.tell("fail", driver.recv("receiver").number)
    for spec, dead in (("=refused", ["news", "receiver", "1", "0"]), ("3000000:5", ["news", "receiver", "2", "1"])):
        letter = driver.recv("undertaker")
        same_body(letter, spec)
        expect(letter.topic == "news.dead", f"{letter}")
        found = driver.tell("dead", letter.number)
        expect(found == dead, f"{found}, not {dead}")
        driver.tell("ack", letter.number)
    driver.tell("send", "sender", "news", "=fine")
    fine = driver.recv("receiver")
    refused(errno.ENOENT, driver.tell, "dead", fine.number)
    driver.tell("ack", fine.number)
    driver.settled("sender")


def what_a_handler_says(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("burst", "sender", "news", 2)
    ran = driver.tell("run", "receiver", "ack", "fail", "throw", "ack")
    expect(ran == ["0:1", "1:1", "1:2", "1:3"], f"{ran}")
    driver.settled("sender")
    driver.tell("send", "sender", "news", "=last")
    ran = driver.tell("run", "receiver", "nack")
    expect(ran == ["last:1"], f"{ran}")
    ran = driver.tell("run", "receiver", "terminate")
    expect(ran == ["last:2"], f"{ran}")
    # The dead letter waits to be collected.
    driver.tell("settle", "sender", 1, SOON_MS)
    expect(driver.tell("pending", "sender") == ["1"], "the dead letter")


def a_handler_sends(open_driver):
    driver = open_driver()
    driver.start("first", "f")
    driver.start("middle", "m")
    driver.start("last", "l")
    driver.tell("forward", "middle", "l")
    driver.tell("burst", "first", "m", 100)
    got = driver.tell("take", "last", 100)
    expect(got == [str(number) for number in range(100)], f"{got}")
    driver.settled("first", "middle")
    driver.tell("close", "middle")


def what_is_pending_outlives_a_restart(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.tell("burst", "sender", "news", 40)
    driver.tell("close", "sender")
    for part in range(2):
        driver.start("sender", "s")
        driver.start("receiver", "news")
        expect(driver.tell("pending", "sender") == [str(40 - 20 * part)], "what is pending")
        got = driver.tell("take", "receiver", 20)
        expect(got == [str(number) for number in range(20 * part, 20 * part + 20)], f"{got}")
        driver.tell("settle", "sender", 20 - 20 * part, SOON_MS)
        driver.tell("close", "receiver")
        driver.tell("close", "sender")


def what_is_pending_outlives_a_kill(open_driver):
    first = open_driver()
    first.start("sender", "s", "lease_ms=1000")
    first.tell("burst", "sender", "news", 100)
    first.kill()
    driver = open_driver()
    driver.start("receiver", "news")
    starts_when_free(driver, "sender", "s")
    got = driver.tell("take", "receiver", 100)
    expect(got == [str(number) for number in range(100)], f"{got}")
    driver.settled("sender")


def what_was_not_handled_comes_again(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("send", "sender", "news", "=one")
    held = driver.recv("receiver")
    driver.tell("close", "receiver")
    same_body(held, "=one")
    driver.start("receiver", "news")
    driver.take("receiver", "=one")
    driver.settled("sender")


def an_acknowledgement_after_the_close_counts(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    for text in ("one", "two"):
        driver.tell("send", "sender", "news", f"={text}")
    held = driver.recv("receiver")
    driver.tell("close", "receiver")
    driver.tell("ack", held.number)
    driver.tell("settle", "sender", 1, SOON_MS)
    driver.start("receiver", "news")
    driver.take("receiver", "=two")
    driver.settled("sender")


def a_name_is_for_one_client(open_driver):
    driver = open_driver()
    driver.start("one", "t")
    refused(errno.EEXIST, driver.tell, "start", "other", "one", "t", f"data_dir={driver.place}/elsewhere",
            f"registry={driver.registry}")
    driver.tell("close", "one")
    driver.start("one", "t")


def what_is_wrong_is_refused(open_driver):
    driver = open_driver()
    start = ("start", "client")
    data = f"data_dir={driver.place}/data"
    refused(errno.EINVAL, driver.tell, *start, "n" * 256, "t", data, f"registry={driver.registry}")
    refused(errno.EINVAL, driver.tell, *start, "one", "t" * 256, data, f"registry={driver.registry}")
    refused(errno.EINVAL, driver.tell, *start, "one", "t", data, "registry=pigeon://loft")
    refused(errno.EPROTONOSUPPORT, driver.tell, *start, "one", "t", data, "registry=none", "listen=pigeon://loft")
    driver.start("one", "t")
    for call in ("send", "all"):
        refused(errno.EINVAL, driver.tell, call, "one", "t" * 256, "=body")
    refused(errno.EINVAL, driver.tell, "subscribe", "one", "t" * 256)
    refused(errno.EAGAIN, driver.tell, "recv", "one", 1)


def closing_ends_who_waits(open_driver):
    driver = open_driver()
    driver.start("one", "t")
    # EFAULT if the thread had not begun to receive yet.
    refused((errno.ECANCELED, errno.EFAULT), driver.tell, "interrupt", "one")
    driver.start("one", "t")


def several_clients_of_one_store(open_driver):
    driver = open_driver()
    driver.start("sender", "s", data="store")
    driver.start("receiver", "news", data="store")
    driver.tell("burst", "sender", "news", 100)
    got = driver.tell("take", "receiver", 100)
    expect(got == [str(number) for number in range(100)], f"{got}")
    driver.settled("sender")


def signals_are_for_the_application(open_driver):
    # Gives the client a signal mask that is not empty.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        driver = open_driver()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.tell("start_process", "receiver", "s")
    driver.tell("send", "sender", "news", "=one")
    started = driver.tell("take", "sender", 1)
    process = driver.process.pid
    expect(started == [blocked(process, process)], f"a handler's process blocks {started}")
    expect(int(started[0], 16) >> signal.SIGUSR2 - 1 & 1, "what the starter blocks")
    threads = [int(task.name) for task in Path(f"/proc/{process}/task").iterdir() if int(task.name) != process]
    expect(len(threads) > 3, f"{threads}")
    # The thread of the handler may still be in it.
    until("each thread blocks all but faults", lambda: {blocked(process, thread) for thread in threads} == {LIBRARY})


BEHAVIOURS = [thing for thing in list(globals().values()) if getattr(thing, "__module__", "") == __name__
              and thing not in (until, listening, starts_when_free, handle_once, blocked)]
