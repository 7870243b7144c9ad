"""Tests of message ids, content types, trace context, ordering keys and headers, as in suite.py."""
import errno
import time

from check import expect
from driver import SOON_MS, Refused, refused, same_body
from suite import listening, starts_when_free, until

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ALL = ["order-7", "text/plain", TRACE, "vendor=1", "key", "region=north", "empty=", "k\u00e4y=v=1"]
NONE = ["-"] * 5


def described(driver, delivery, wanted):
    found = driver.tell("properties", delivery.number)
    expect(found == wanted, f"{found}, not {wanted}")


def what_is_with_the_body_arrives(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    for spec in ("=one", "0:0", "3000000:5"):
        own = [f"order-{spec[:2]}", *ALL[1:]]
        driver.tell("describe", "sender", "news", spec, *own)
        driver.tell("send", "sender", "news", spec)
        for wanted in (own, NONE):
            got = driver.recv("receiver")
            same_body(got, spec)
            described(driver, got, wanted)
            driver.tell("ack", got.number)
    driver.tell("describe", "sender", "news", "=some", *NONE, "only=this")
    got = driver.recv("receiver")
    described(driver, got, [*NONE, "only=this"])
    driver.tell("ack", got.number)
    refused(errno.EFAULT, driver.tell, "properties", got.number)
    driver.settled("sender")


def what_is_with_the_body_outlives_a_kill(open_driver):
    first = open_driver()
    first.start("sender", "s", "lease_ms=1000")
    first.tell("describe", "sender", "news", "3000000:5", *ALL)
    first.kill()
    driver = open_driver()
    driver.start("receiver", "news")
    starts_when_free(driver, "sender", "s")
    got = driver.recv("receiver")
    same_body(got, "3000000:5")
    described(driver, got, ALL)
    driver.tell("ack", got.number)
    driver.settled("sender")


def what_is_with_the_body_stays_with_a_dead_letter(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("receiver", "news")
    driver.start("undertaker", "news.dead")
    listening(driver, "sender", "news.dead", 1)
    driver.tell("describe", "sender", "news", "=refused", *ALL)
    driver.tell("terminate", driver.recv("receiver").number)
    letter = driver.recv("undertaker")
    same_body(letter, "=refused")
    described(driver, letter, ALL)
    expect(driver.tell("dead", letter.number) == ["news", "receiver", "1", "0"], "its history")
    driver.tell("ack", letter.number)
    driver.settled("sender")


def what_is_wrong_beside_the_body_is_refused(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    send = ("describe", "sender", "news", "=body")
    refused(errno.EINVAL, driver.tell, *send, "i" * 256, *NONE[1:])
    refused(errno.EINVAL, driver.tell, *send, "-", "t" * 256, *NONE[2:])
    refused(errno.EINVAL, driver.tell, *send, "-", "-", TRACE.upper(), "-", "-")
    refused(errno.EINVAL, driver.tell, *send, "-", "-", "-", "vendor=1", "-")
    for key in ("''", "k" * 256):
        reason = "ordering key must have 1 to 255 bytes"
        refused(errno.EINVAL, driver.tell, *send, *NONE[1:], key, reason=reason)
    refused(errno.EINVAL, driver.tell, *send, *NONE, "=value")
    refused(errno.EINVAL, driver.tell, *send, *NONE, f"key={'v' * 16_384}")
    expect(driver.tell("pending", "sender") == ["0"], "nothing is pending")
    driver.tell(*send, "i" * 255, "t" * 255, "-", "-", "k" * 255)
    driver.tell("settle", "sender", 1, SOON_MS)


def what_is_sent_again_with_its_id_is_stored_once(open_driver):
    first = open_driver()
    first.start("sender", "s", "lease_ms=1000")
    for spec in ("=0", "3000000:5"):
        for number in range(20):
            first.tell("describe", "sender", "news", spec, f"{spec[:2]}-{number % 10}", *NONE[1:])
    pending = first.tell("pending", "sender")
    first.kill()
    driver = open_driver()
    starts_when_free(driver, "sender", "s")
    for spec in ("3000000:5", "=0"):
        for number in range(10):
            driver.tell("describe", "sender", "news", spec, f"{spec[:2]}-{number}", *NONE[1:])
    expect(driver.tell("pending", "sender") == pending, "nothing was added")
    driver.start("receiver", "news")
    for spec in ("=0", "3000000:5"):
        for number in range(10):
            got = driver.recv("receiver")
            same_body(got, spec)
            described(driver, got, [f"{spec[:2]}-{number}", *NONE[1:]])
            driver.tell("ack", got.number)
    driver.settled("sender")
    driver.nothing_for("receiver")


def what_is_sent_again_after_its_window_is_stored_again(open_driver):
    driver = open_driver()
    driver.start("sender", "s", "deduplicate_for_ms=1")
    driver.start("always", "a", "deduplicate_for_ms=0")
    driver.start("never", "n", "deduplicate_for_ms=forever")
    for _ in range(2):
        driver.tell("describe", "never", "news", "=one", "7", *NONE[1:])
    driver.tell("describe", "sender", "news", "=one", "7", *NONE[1:])
    over = time.monotonic() + 0.005
    until("some milliseconds", lambda: time.monotonic() > over)
    driver.tell("describe", "sender", "news", "=one", "7", *NONE[1:])
    for _ in range(2):
        driver.tell("describe", "always", "news", "=one", "7", *NONE[1:])
    expect(driver.tell("pending", "sender") == driver.tell("pending", "always") == ["2"], "both")
    driver.tell("describe", "never", "news", "=one", "7", *NONE[1:])
    expect(driver.tell("pending", "never") == ["1"], "once")


def what_has_one_ordering_key_goes_to_one_receiver_in_order(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    for receiver in ("one", "two"):
        driver.start(receiver, "work")
    listening(driver, "sender", "work", 2)
    # Both are connected: a receiver that does not connect within 2 s loses its keys to the other.
    driver.tell("all", "sender", "work", "=hello")
    for receiver in ("one", "two"):
        driver.take(receiver, "=hello")
    for number in range(5):
        for key in range(20):
            driver.tell("describe", "sender", "work", "=body", *NONE[1:], f"key-{key}", f"number={number}")
    found, left = {}, 100

    def receive():
        nonlocal left
        for receiver in ("one", "two"):
            try:
                got = driver.recv(receiver, 10)
            except Refused as refusal:
                expect(refusal.number == errno.EAGAIN, f"{refusal}")
                continue
            *none, key, number = driver.tell("properties", got.number)
            expect(none == NONE[1:], f"{none} with {key}")
            found.setdefault(key, []).append((receiver, number))
            driver.tell("ack", got.number)
            left -= 1
        return left == 0

    until("each message", receive)
    driver.settled("sender")
    for key, deliveries in found.items():
        (receiver, _), *_ = deliveries
        expect(deliveries == [(receiver, f"number={number}") for number in range(5)], f"{key}: {deliveries}")
    expect(len(found) == 20 and len({deliveries[0][0] for deliveries in found.values()}) == 2, f"{found}")


BEHAVIOURS = [thing for name, thing in list(globals().items()) if name.startswith("what_")]
