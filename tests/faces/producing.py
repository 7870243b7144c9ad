"""Tests of consuming and producing in one step, as in suite.py."""
import errno

from check import expect
from driver import SOON_MS, Refused, refused, same_body
from suite import listening, starts_when_free

# Of a message: to one, and without an id.
TO_ONE = (0, "-")
TO_ALL = (1, "-")


def chain(open_driver, *options):
    """A driver with a sender, a worker with these options, and a printer for the worker's invoices."""
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("worker", "orders", *options)
    driver.start("printer", "invoices")
    return driver


def order(driver, text="=order"):
    driver.tell("send", "sender", "orders", text)
    return driver.recv("worker")


def together(driver, delivery, *messages):
    return driver.tell("together", "worker", delivery.number, SOON_MS, *messages)


def results_follow_from_a_message(open_driver):
    driver = open_driver()
    driver.start("sender", "s")
    driver.start("worker", "orders")
    for client in ("one", "two"):
        driver.start(client, "news")
    driver.start("printer", "invoices")
    listening(driver, "worker", "news", 2)
    got = order(driver)
    together(driver, got, "invoices", "=first", *TO_ONE, "invoices", "3000000:5", *TO_ONE, "news", "=all", *TO_ALL)
    driver.take("printer", "=first")
    driver.take("printer", "3000000:5")
    for client in ("one", "two"):
        driver.take(client, "=all")
    refused(errno.EFAULT, driver.tell, "ack", got.number)
    refused(errno.EFAULT, together, driver, got)
    # Without messages it acknowledges alone.
    together(driver, order(driver))
    driver.settled("sender", "worker")
    driver.nothing_for("printer")


def what_is_refused_acknowledges_nothing(open_driver):
    driver = chain(open_driver, "disk_limit=16777216")
    got = order(driver)
    good = ("invoices", "=good", *TO_ONE)
    refused(errno.EINVAL, together, driver, got, *good, "t" * 251, "=bad", *TO_ONE)
    refused(errno.EINVAL, together, driver, got, *good, "invoices", "=bad", 0, "i" * 256, reason="id")
    refused(errno.EINVAL, driver.tell, "together", "printer", got.number, SOON_MS, *good, reason="another client")
    half = ("invoices", "600000:1", *TO_ONE)
    refused(errno.EMSGSIZE, together, driver, got, *half, *half, reason="1048576")
    expect(driver.tell("pending", "worker") == ["0"], "nothing was sent")
    expect(driver.tell("in_hand", "worker") == ["1"], "it is still in hand")
    same_body(got, "=order")
    together(driver, got, *good)
    driver.take("printer", "=good")
    driver.settled("sender", "worker")
    driver.nothing_for("printer")


def what_no_longer_counts_sends_nothing(open_driver):
    driver = chain(open_driver, "ack_within_ms=20")
    late = order(driver)
    again = driver.recv("worker")
    refused(errno.ESTALE, together, driver, late, "invoices", "=late", *TO_ONE, reason="no longer counts")
    driver.tell("ack", again.number)
    refused(errno.ESTALE, together, driver, late, "invoices", "=late", *TO_ONE)
    driver.tell("fail", late.number)
    driver.settled("sender", "worker")
    driver.nothing_for("printer")


def what_was_accepted_is_settled(open_driver):
    """Its time is over before the disk has it, at the latest after some attempts."""
    driver = chain(open_driver)
    for sent in range(1, 1000):
        got = order(driver)
        try:
            driver.tell("together", "worker", got.number, 0, "invoices", "=one", *TO_ONE)
        except Refused as late:
            expect(late.number in (errno.EINPROGRESS, errno.EAGAIN), f"{late}")
            break
    else:
        expect(False, "the disk is always faster")
    refused(errno.EFAULT, driver.tell, "ack", got.number)
    for _ in range(sent):
        driver.take("printer", "=one")
    driver.settled("sender", "worker")
    driver.nothing_for("worker")
    driver.nothing_for("printer")


def a_message_with_an_id_that_was_sent_is_sent_once(open_driver):
    driver = chain(open_driver)
    for _ in range(2):
        together(driver, order(driver), "invoices", "=one", 0, "invoice-1", "invoices", "=one", 0, "invoice-1")
    driver.take("printer", "=one")
    driver.settled("sender", "worker")
    driver.nothing_for("printer")


def what_was_sent_together_outlives_a_kill(open_driver):
    driver, working = open_driver(), open_driver()
    driver.start("sender", "s")
    working.start("worker", "orders", "lease_ms=1000")
    driver.tell("send", "sender", "orders", "=order")
    together(working, working.recv("worker"), "invoices", "=first", *TO_ONE, "invoices", "3000000:5", *TO_ONE)
    working.kill()
    starts_when_free(driver, "worker", "orders")
    driver.start("printer", "invoices")
    driver.take("printer", "=first")
    driver.take("printer", "3000000:5")
    driver.settled("sender", "worker")
    driver.nothing_for("worker")
    driver.nothing_for("printer")


BEHAVIOURS = [thing for thing in list(globals().values()) if getattr(thing, "__module__", "") == __name__
              and thing not in (order, together)]
